//! What the reader of traces accepts and how it names what it refuses.

use super::*;

const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";

fn now() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn read(text: &[u8]) -> Result<Vec<TraceRequest>, TraceError> {
    TraceReader::new(text, "trace.csv", now())?.collect()
}

fn request(at: &str, context_tokens: u64, generated_tokens: u64) -> TraceRequest {
    TraceRequest { at: at.parse().unwrap(), context_tokens, generated_tokens }
}

#[test]
fn every_spelling_of_the_format_is_read() {
    let wanted = [request("2023-11-16T18:15:46.680590Z", 374, 44)];
    for text in [
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.680590+00:00,374,44\r\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n\n2023-11-16T18:15:46.68059Z,374,44",
        "\u{feff}\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n\"2023-11-16 18:15:46.6805900\",\"374\",\"44\"\n",
        "GeneratedTokens,region,TIMESTAMP,ContextTokens\n44,west,2023-11-16 18:15:46.6805900,374\n",
    ] {
        assert_eq!(read(text.as_bytes()).unwrap(), wanted, "{text:?}");
    }
}

#[test]
fn a_malformed_line_is_named_by_file_line_and_column() {
    let good = "2023-11-16 18:15:46.6805900,374,44";
    for (lines, wanted) in [
        (
            format!("{good}\n2023-11-16 18:15:47,12x,1"),
            ":3: column ContextTokens: not a whole number: \"12x\"",
        ),
        (
            format!("{good}\n\n2023-11-16 18:15:47,1,-1"),
            ":4: column GeneratedTokens: not a whole number: \"-1\"",
        ),
        (
            format!("{good}\n2023-11-16 18:15:47,1,1.5"),
            ":3: column GeneratedTokens: not a whole number: \"1.5\"",
        ),
        (format!("{good}\n2023-11-16 18:15:47,,1"), ":3: column ContextTokens: not a whole number: \"\""),
        (
            format!("{good}\n2023-11-16 18:15:47,1,１"),
            ":3: column GeneratedTokens: not a whole number: \"１\"",
        ),
        (
            format!("{good}\n2023-11-16 18:15:47,1000000001,1"),
            ":3: column ContextTokens: 1000000001 is above",
        ),
        (format!("{good}\n2023-11-16 18:15:47,1{},1", "0".repeat(60)), ":3: column ContextTokens: 1000"),
        (format!("{good}\nyesterday,1,1"), ":3: column TIMESTAMP: not a time in UTC"),
        (format!("{good}\n2023-13-16 18:15:47,1,1"), ":3: column TIMESTAMP: not a time in UTC"),
        (format!("{good}\n2023-11-16 18:15:47+02:00,1,1"), ":3: column TIMESTAMP: not a time in UTC"),
        (
            format!("{good}\n1969-12-31 23:59:59,1,1"),
            ":3: column TIMESTAMP: \"1969-12-31 23:59:59\" is before 1970",
        ),
        (format!("{good}\n2026-01-01 00:00:01,1,1"), "after 2026-01-01T00:00:00Z"),
        (format!("{good}\n2023-11-16 18:15:47,1"), ":3: 2 fields, the header has 3"),
        (format!("{good}\n2023-11-16 18:15:47,1,1,1"), ":3: 4 fields, the header has 3"),
        (format!("{good}\n{}", "9".repeat(5000)), ":3: longer than 4096 bytes"),
    ] {
        let error = read(format!("{HEADER}\n{lines}\n").as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("trace.csv:") && error.contains(wanted), "{lines:?}: {error}");
        assert!(!error.contains('\n') && error.len() < 200, "{error}");
    }
}

#[test]
fn a_malformed_header_is_named() {
    for (text, wanted) in [
        ("", "trace.csv: empty; expected the header TIMESTAMP,ContextTokens,GeneratedTokens"),
        ("\n\n", "trace.csv: empty; expected the header TIMESTAMP,ContextTokens,GeneratedTokens"),
        ("TIMESTAMP,ContextTokens\n", "trace.csv:1: column GeneratedTokens: missing from the header"),
        (
            "timestamp,ContextTokens,GeneratedTokens\n",
            "trace.csv:1: column TIMESTAMP: missing from the header",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens,ContextTokens\n",
            "trace.csv:1: column ContextTokens: twice in the header",
        ),
    ] {
        assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), wanted, "{text:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_named() {
    let error = read(b"TIMESTAMP,ContextTokens,GeneratedTokens\n\xff\xfe,1,1\n").unwrap_err();
    assert_eq!(error.to_string(), "trace.csv:2: not UTF-8 text");
}

#[test]
fn nothing_is_read_after_an_error() {
    let text = format!("{HEADER}\nx,1,1\n2023-11-16 18:15:47,1,1\n");
    let mut reader = TraceReader::new(text.as_bytes(), "trace.csv", now()).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn validation_counts_the_requests_up_to_the_limit() {
    let text = format!("{HEADER}\n{}", "2023-11-16 18:15:47,1,1\n".repeat(5));
    let reader = || TraceReader::new(text.as_bytes(), "trace.csv", now()).unwrap();
    assert_eq!(validate(reader(), u64::MAX).unwrap().requests, 5);
    assert_eq!(validate(reader(), 3).unwrap().requests, 3);
}

#[test]
fn a_trace_without_a_request_is_refused() {
    let reader = TraceReader::new(HEADER.as_bytes(), "trace.csv", now()).unwrap();
    assert_eq!(validate(reader, 9).unwrap_err().to_string(), "trace.csv: has no request below its header");
}

#[test]
fn a_file_that_is_not_there_or_a_folder_is_named() {
    let error = open(Path::new("/no/such/trace.csv"), now()).unwrap_err().to_string();
    assert!(error.starts_with("/no/such/trace.csv: cannot be read: "), "{error}");
    let error = open(&std::env::temp_dir(), now()).unwrap_err().to_string();
    assert!(error.ends_with("not a regular file; a trace is read twice"), "{error}");
}

#[test]
fn what_is_written_is_read_again() {
    let requests =
        [request("2025-05-31T23:59:59.999999Z", 1, 2), request("2025-06-01T00:00:00Z", 0, MAX_TRACE_TOKENS)];
    let mut text = Vec::new();
    write(&mut text, requests.into_iter()).unwrap();
    assert_eq!(read(&text).unwrap(), requests);
}
