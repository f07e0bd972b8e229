//! Rows in the binary form of a composite type: a count of fields, then each field as type, length and bytes, which is what
//! `record_recv` reads.
//!
//! `postgres-types` writes the fields, each in the form of its type; sqlx carries the rows, as one array.

use bytes::{BufMut, Bytes, BytesMut};
use postgres_types::{ToSql, Type};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::{Encode, Postgres};

use crate::LedgerError;

/// A field's length when it is null.
const NULL: i32 = -1;
const LENGTH_BYTES: usize = size_of::<i32>();

/// One row of the type `settled_event`.
pub(super) struct SettledEventRow(Bytes);

/// Writes rows of `N` fields, one behind the other in one buffer.
pub(super) struct RowWriter<const N: usize> {
    fields: [Type; N],
    count: i32,
    buffer: BytesMut,
}

impl<const N: usize> RowWriter<N> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "checked in the line above"
    )]
    const COUNT: i32 = {
        assert!(N <= 1600, "a composite type has no more fields");
        N as i32
    };

    /// `bytes` is a guess at the size of all rows, to save copies.
    pub(super) fn new(fields: [Type; N], bytes: usize) -> Self {
        Self { fields, count: Self::COUNT, buffer: BytesMut::with_capacity(bytes) }
    }

    /// One row.
    ///
    /// # Errors
    ///
    /// When a value has no binary form of its field's type; the writer is of no use then.
    pub(super) fn write(&mut self, values: [&(dyn ToSql + Sync); N]) -> Result<SettledEventRow, LedgerError> {
        self.buffer.put_i32(self.count);
        for (value, field) in values.into_iter().zip(&self.fields) {
            self.buffer.put_u32(field.oid());
            let at = self.buffer.len();
            self.buffer.put_i32(NULL);
            let written = value
                .to_sql_checked(field, &mut self.buffer)
                .map_err(|error| unwritable(field, &error.to_string()))?;
            if let postgres_types::IsNull::No = written {
                let length = self.buffer.len() - at - LENGTH_BYTES;
                let length = i32::try_from(length).map_err(|_| unwritable(field, "longer than 2 GiB"))?;
                self.buffer[at..at + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
            }
        }
        Ok(SettledEventRow(self.buffer.split().freeze()))
    }
}

impl sqlx::Type<Postgres> for SettledEventRow {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("settled_event")
    }
}

impl PgHasArrayType for SettledEventRow {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::array_of("settled_event")
    }
}

impl Encode<'_, Postgres> for SettledEventRow {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
}

fn unwritable(field: &Type, problem: &str) -> LedgerError {
    LedgerError::Unwritable { column_type: field.to_string(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_bytes_that_the_server_reads() {
        let mut writer = RowWriter::new([Type::INT8, Type::TEXT], 64);
        let one = writer.write([&258_i64, &None::<&str>]).unwrap();
        let two = writer.write([&-1_i64, &"é"]).unwrap();
        let int8 = [&[0, 0, 0, 20][..], &[0, 0, 0, 8]].concat();
        let text = [0, 0, 0, 25];
        assert_eq!(one.0, [&[0, 0, 0, 2][..], &int8, &[0, 0, 0, 0, 0, 0, 1, 2], &text, &[0xff; 4]].concat());
        let e_acute = [&[0, 0, 0, 2][..], "é".as_bytes()].concat();
        assert_eq!(two.0, [&[0, 0, 0, 2][..], &int8, &[0xff; 8], &text, &e_acute].concat());
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let error = RowWriter::new([Type::BOOL], 16).write([&1_i64]).err().unwrap();
        assert!(error.to_string().contains("bool"), "{error}");
    }
}
