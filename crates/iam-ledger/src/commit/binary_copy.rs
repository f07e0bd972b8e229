//! Rows in the binary format of `COPY`: a header, then each row as a count of fields, each field as length and bytes, then
//! a trailer ([PostgreSQL, COPY, binary format](https://www.postgresql.org/docs/current/sql-copy.html)).

use bytes::{BufMut, BytesMut};
use postgres_types::{IsNull, ToSql, Type};
use sqlx::PgConnection;

use crate::LedgerError;

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Flags and the length of the header's extension: none.
const NO_FLAGS: [u8; 8] = [0; 8];
/// A field's length when it is null.
const NULL: i32 = -1;
/// In place of a row's count of fields.
const TRAILER: i16 = -1;
const LENGTH_BYTES: usize = size_of::<i32>();

/// Rows of `N` columns, ready to be sent.
pub(super) struct BinaryRows<const N: usize> {
    columns: [Type; N],
    fields: i16,
    buffer: BytesMut,
}

impl<const N: usize> BinaryRows<N> {
    #[allow(clippy::cast_possible_truncation, reason = "checked in the line above")]
    const FIELDS: i16 = {
        assert!(N <= 1600, "a table has no more columns");
        N as i16
    };

    /// No row yet. `row_bytes` is a guess at the size of one, to save copies.
    pub(super) fn new(columns: [Type; N], rows: usize, row_bytes: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(rows.saturating_mul(row_bytes));
        buffer.put_slice(HEADER);
        buffer.put_slice(&NO_FLAGS);
        Self { columns, fields: Self::FIELDS, buffer }
    }

    /// Adds a row, or nothing.
    ///
    /// # Errors
    ///
    /// When a value has no binary form of its column's type; the rows are of no use then.
    pub(super) fn push(&mut self, row: [&(dyn ToSql + Sync); N]) -> Result<(), LedgerError> {
        self.buffer.put_i16(self.fields);
        for (value, column) in row.into_iter().zip(&self.columns) {
            let at = self.buffer.len();
            self.buffer.put_i32(NULL);
            let written = value
                .to_sql_checked(column, &mut self.buffer)
                .map_err(|error| unwritable(column, &error.to_string()))?;
            if let IsNull::No = written {
                let length = self.buffer.len() - at - LENGTH_BYTES;
                let length = i32::try_from(length).map_err(|_| unwritable(column, "longer than 2 GiB"))?;
                self.buffer[at..at + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
            }
        }
        Ok(())
    }

    /// Sends the rows through a `COPY ... FROM STDIN (FORMAT BINARY)`.
    pub(super) async fn send(
        mut self,
        connection: &mut PgConnection,
        copy: &'static str,
        step: &'static str,
    ) -> Result<(), LedgerError> {
        self.buffer.put_i16(TRAILER);
        let mut sink = connection.copy_in_raw(copy).await.map_err(LedgerError::query(step))?;
        sink.send(&*self.buffer).await.map_err(LedgerError::query(step))?;
        sink.finish().await.map_err(LedgerError::query(step)).map(drop)
    }
}

fn unwritable(column: &Type, problem: &str) -> LedgerError {
    LedgerError::Unwritable { column_type: column.to_string(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_bytes_that_the_format_prescribes() {
        let mut rows = BinaryRows::new([Type::INT8, Type::TEXT], 1, 16);
        rows.push([&258_i64, &None::<&str>]).unwrap();
        rows.push([&-1_i64, &"é"]).unwrap();
        let row = |fields: &[&[u8]]| [&[0, 2], &*fields.concat()].concat();
        let one = row(&[&[0, 0, 0, 8], &[0, 0, 0, 0, 0, 0, 1, 2], &[0xff; 4]]);
        let two = row(&[&[0, 0, 0, 8], &[0xff; 8], &[0, 0, 0, 2], "é".as_bytes()]);
        assert_eq!(&*rows.buffer, [HEADER, &NO_FLAGS, &one, &two].concat());
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let error = BinaryRows::new([Type::BOOL], 1, 16).push([&1_i64]).unwrap_err();
        assert!(error.to_string().contains("bool"), "{error}");
    }
}
