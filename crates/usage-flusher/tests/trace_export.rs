//! Spans reach a collector, and a collector that is gone changes nothing.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use spend_queue::SpendQueue;
use support::{Stack, event, shard, terminate};

/// A collector that answers 200 and hands on what it was sent.
struct Collector {
    address: String,
    requests: Receiver<ExportTraceServiceRequest>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let tell = tell.clone();
                std::thread::spawn(move || serve(stream, &tell));
            }
        });
        Self { address, requests }
    }

    /// All spans that came until now, with the attributes of who sent them.
    fn spans(&self) -> Vec<(BTreeMap<String, Value>, Span)> {
        let mut spans = Vec::new();
        for resource in self.requests.try_iter().flat_map(|request| request.resource_spans) {
            let sender = attributes(&resource.resource.unwrap().attributes);
            let sent = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.extend(sent.map(|span| (sender.clone(), span)));
        }
        spans
    }
}

/// Answers requests of one connection until it ends.
fn serve(stream: TcpStream, tell: &Sender<ExportTraceServiceRequest>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(bytes) = line.strip_prefix("content-length:") {
                length = bytes.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        assert!(head[0].starts_with("post /v1/traces "), "{head:?}");
        assert!(head.contains(&"content-type: application/x-protobuf".to_owned()), "{head:?}");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        tell.send(ExportTraceServiceRequest::decode(&body[..]).unwrap()).ok()?;
        writer
            .write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
            )
            .ok()?;
    }
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |pair: &KeyValue| pair.value.clone().and_then(|value| value.value);
    list.iter().filter_map(|pair| Some((pair.key.clone(), value(pair)?))).collect()
}

fn text(value: &str) -> Option<Value> {
    Some(Value::StringValue(value.to_owned()))
}

fn flusher(stack: &Stack, endpoint: &str) -> Command {
    let mut flusher = stack.flusher();
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        flusher.env_remove(name);
    }
    flusher.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    flusher
}

/// Waits until the queue is empty.
async fn drained(stack: &Stack) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while stack.hot.depth(shard()).await != Ok(0) {
        assert!(Instant::now() < give_up, "the queue is not drained");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Stops it; returns what it logged.
fn stopped(mut flusher: Child) -> String {
    let asked = Instant::now();
    terminate(&flusher);
    let mut log = String::new();
    flusher.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(flusher.wait().unwrap().success(), "{log}");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_a_trace_of_its_steps_and_the_last_one_is_sent_before_the_process_ends() {
    let (stack, collector) = (Stack::start().await, Collector::start());
    for id in 0..3 {
        stack.hot.enqueue(&event(&format!("r{id}"), 5)).await.unwrap();
    }
    let flusher = flusher(&stack, &format!("http://{}", collector.address)).spawn().unwrap();
    drained(&stack).await;
    let log = stopped(flusher);
    // What it logs is what it logs without a collector.
    let line = log.lines().find(|line| line.contains("batch committed")).unwrap_or_else(|| panic!("{log}"));
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["entries"], &line["shard"]), (&3.into(), &0.into()), "{line}");
    assert!(line["span"].is_null() && line["spans"].is_null(), "{line}");

    let spans = collector.spans();
    let (sender, batch) = spans
        .iter()
        .find(|(_, span)| span.name == "batch" && span.parent_span_id.is_empty())
        .unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!(sender.get("service.name").cloned(), text("usage-flusher"));
    assert_eq!(sender.get("service.version").cloned(), text(env!("CARGO_PKG_VERSION")));
    let said = attributes(&batch.attributes);
    for (name, value) in [
        ("messaging.system", text("redis")),
        ("messaging.destination.partition.id", text("0")),
        ("messaging.batch.message_count", Some(Value::IntValue(3))),
        ("tallyweir.batch.first_seq", Some(Value::IntValue(1))),
        ("tallyweir.batch.last_seq", Some(Value::IntValue(3))),
        ("tallyweir.batch.outcome", text("acknowledged")),
    ] {
        assert_eq!(said.get(name).cloned(), value, "{name} in {said:?}");
    }
    let mut steps: Vec<_> =
        spans.iter().map(|(_, span)| span).filter(|span| span.parent_span_id == batch.span_id).collect();
    steps.sort_by_key(|span| span.start_time_unix_nano);
    assert_eq!(steps.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["peek", "commit", "acknowledge"]);
    assert!(steps.iter().all(|span| span.trace_id == batch.trace_id));
    assert_eq!(spans.len(), 4, "looks that found nothing are not sent: {spans:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_or_silent_changes_nothing_and_is_logged_once() {
    // Accepts by the kernel's grace and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [&silent, &gone].map(|listener| listener.local_addr().unwrap());
    drop(gone);
    for (address, is_gone) in addresses.into_iter().zip([false, true]) {
        let stack = Stack::start().await;
        let mut command = flusher(&stack, &format!("http://{address}"));
        command.env("OTEL_BSP_SCHEDULE_DELAY", "20").args(["--batch-min", "10", "--batch-max", "10"]);
        let flusher = command.spawn().unwrap();
        for id in 0..300 {
            stack.hot.enqueue(&event(&format!("r{id}"), 5)).await.unwrap();
        }
        drained(&stack).await;
        let log = stopped(flusher);
        let totals = stack.ledger.totals().await.unwrap();
        assert!(totals.settled_requests == 300 && totals.agree(), "{totals:?}");
        let complaints = log.lines().filter(|line| line.contains("does not take spans")).count();
        assert!(complaints == 1 || !is_gone && complaints == 0, "{complaints} in {log}");
    }
}

#[tokio::test]
async fn a_collectors_url_that_is_none_is_refused_in_one_line_without_it() {
    let stack = Stack::start().await;
    for url in ["collector:4317", "grpc://canary:4317", "http://user:canary@collector:4318"] {
        let output = flusher(&stack, url).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.trim_end().lines().count() == 1, "{text}");
        assert!(text.contains("--otlp-endpoint") && text.contains("accepted"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}
