//! Logs, errors and metrics hold no secret and nothing of a prompt or an answer.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

use crate::world::{World, chat, stream};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(flavor = "current_thread")]
async fn neither_secrets_nor_prompts_reach_the_logs() {
    let captured = Captured::default();
    let logs = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(captured.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(logs);
    let mut world = World::start().await;
    for mut body in [
        chat("tokens=3"),
        stream("tokens=3"),
        stream("half,tokens=20"),
        chat("garbage"),
        chat("nothing"),
        chat("status=500"),
        chat("status=404"),
        chat("bogus"),
    ] {
        body["messages"][0]["content"] = "canary-of-a-prompt".into();
        body["user"] = "canary-of-a-user".into();
        let request =
            world.post("chat/completions", &body).header("idempotency-key", format!("canary-{body}"));
        request.send().await.unwrap().text().await.unwrap();
    }
    let broken = world.http.post(format!("{}/v1/chat/completions", world.url)).bearer_auth(&world.secret);
    broken.body("{\"model\": \"small\", \"messages\": \"canary\"").send().await.unwrap();
    let metrics =
        world.http.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    let bills = world.bills().await;
    assert!(!bills.is_empty());

    let logs = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(logs.contains("an upstream failed"), "the logs were captured");
    for text in [logs, metrics, format!("{bills:?}")] {
        for secret in ["canary", &world.secret[3..]] {
            let found = text.find(secret).map(|at| &text[at.saturating_sub(300)..(at + 80).min(text.len())]);
            assert!(found.is_none(), "{found:?}");
        }
    }
}
