//! The stored counters of a node.

use rate_plan::{MAX_LIMIT, NodeWindow};

/// Bytes are refused, or they are the one form of a window in range.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let numbers: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|place| place.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        .collect();
    let legal = bytes.len() == NodeWindow::BYTES && numbers.iter().all(|number| *number <= MAX_LIMIT);
    match NodeWindow::from_bytes(bytes) {
        None => assert!(!legal, "refused: {numbers:?}"),
        Some(window) => {
            assert!(legal, "taken: {bytes:?}");
            assert_eq!(window.to_bytes(), bytes);
            let NodeWindow { used, released } = window;
            assert_eq!([used.rpm, used.tpm, released.rpm, released.tpm], numbers[..]);
        }
    }
}
