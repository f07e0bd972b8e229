//! Rows in the binary format of `COPY`: a header, each row as a count of fields and each field as length and bytes, a trailer.

use anyhow::{Result, anyhow};
use bytes::{BufMut, BytesMut};
use postgres_types::{IsNull, ToSql, Type};

/// A value and the type of its column.
pub(crate) type Field<'a> = (&'a (dyn ToSql + Sync), Type);

pub(crate) struct CopyRows(BytesMut);

impl CopyRows {
    pub(crate) fn new(rows: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(rows * 600);
        buffer.put_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
        Self(buffer)
    }

    pub(crate) fn push(&mut self, fields: &[Field<'_>]) -> Result<()> {
        self.0.put_i16(i16::try_from(fields.len())?);
        for (value, column) in fields {
            let at = self.0.len();
            self.0.put_i32(-1);
            let written = value.to_sql_checked(column, &mut self.0).map_err(|error| anyhow!("{error}"))?;
            if let IsNull::No = written {
                let length = i32::try_from(self.0.len() - at - 4)?;
                self.0[at..at + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> BytesMut {
        self.0.put_i16(-1);
        self.0
    }
}

/// Picodollars as `numeric`: five groups of four digits, three of them behind the point. Enough for the bench's costs.
#[derive(Debug)]
pub(crate) struct Cost(pub(crate) i128);

impl ToSql for Cost {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        for header in [5_i16, 1, 0, 12] {
            out.put_i16(header);
        }
        for power in (0..5).rev() {
            out.put_i16(i16::try_from(self.0 / 10_000_i128.pow(power) % 10_000)?);
        }
        Ok(IsNull::No)
    }

    postgres_types::accepts!(NUMERIC);
    postgres_types::to_sql_checked!();
}
