//! What is kept of one node in one minute.

use crate::{MAX_LIMIT, Usage};

/// The incremental state of one node in one minute. Default: nothing used.
///
/// `released` is by how much the reservations of the node's children have shrunk since the minute began: S(v) =
/// [`promised`](crate::RateTree::promised)(v) - released(v). It belongs to one configuration; `used` belongs to
/// the scope whatever its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeWindow {
    /// What the node has used, each 0 to [`MAX_LIMIT`].
    pub used: Usage,
    /// What its children no longer hold, each 0 to the node's promise and so to [`MAX_LIMIT`].
    pub released: Usage,
}

impl NodeWindow {
    /// Length of the stored form.
    pub const BYTES: usize = 32;

    /// The stored form: RPM used, TPM used, RPM released, TPM released, each a big-endian 64-bit integer.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let numbers = [self.used.rpm, self.used.tpm, self.released.rpm, self.released.tpm];
        let mut bytes = [0; Self::BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Reads the stored form; `None` if it has another length or a number is not 0 to [`MAX_LIMIT`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let mut numbers = [0; 4];
        for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = u64::from_be_bytes(place.try_into().ok()?);
            if *number > MAX_LIMIT {
                return None;
            }
        }
        let [used_rpm, used_tpm, released_rpm, released_tpm] = numbers;
        Some(Self {
            used: Usage { rpm: used_rpm, tpm: used_tpm },
            released: Usage { rpm: released_rpm, tpm: released_tpm },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: NodeWindow =
        NodeWindow { used: Usage { rpm: 1, tpm: MAX_LIMIT }, released: Usage { rpm: 0x0203, tpm: 4 } };

    #[test]
    fn the_stored_form_is_four_big_endian_integers() {
        let bytes = WINDOW.to_bytes();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[8..16], [0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes[16..24], [0, 0, 0, 0, 0, 0, 2, 3]);
        assert_eq!(bytes[24..], [0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(NodeWindow::from_bytes(&bytes), Some(WINDOW));
    }

    #[test]
    fn another_length_a_negative_or_too_large_number_is_not_read() {
        let bytes = WINDOW.to_bytes();
        assert_eq!(NodeWindow::from_bytes(&bytes[..31]), None);
        assert_eq!(NodeWindow::from_bytes(&[0; 33]), None);
        for place in 0..4 {
            for number in [MAX_LIMIT + 1, u64::MAX] {
                let mut bytes = bytes;
                bytes[place * 8..place * 8 + 8].copy_from_slice(&number.to_be_bytes());
                assert_eq!(NodeWindow::from_bytes(&bytes), None);
            }
        }
    }
}
