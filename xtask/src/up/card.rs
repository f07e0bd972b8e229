//! What one can do with the running stack: lines to paste.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// Where everything is.
pub(super) struct Card {
    pub(super) gateway: String,
    pub(super) flusher: String,
    /// The secret of a key with room.
    pub(super) key: String,
    /// That of a key with one request per minute.
    pub(super) tiny_key: String,
    /// That of a key with next to no money.
    pub(super) poor_key: String,
    pub(super) database_url: String,
    pub(super) redis_url: String,
    pub(super) mocks: Vec<String>,
    pub(super) folder: PathBuf,
    pub(super) pids: Vec<(&'static str, u32)>,
}

/// The last bills.
const BILLS: &str = "select started_at, key_id, model, status, prompt_tokens, completion_tokens, cost_usd \
                     from usage_events order by started_at desc limit 10";

impl Card {
    fn curl(&self, options: &str, key: &str) -> String {
        let body = r#"{"model":"small","messages":[{"role":"user","content":"Hello"}]}"#;
        format!(
            "curl {options} {}/v1/chat/completions -H 'authorization: Bearer {key}' \
             -H 'content-type: application/json' -d '{body}'",
            self.gateway
        )
    }

    /// A client that streams, for the package `openai`.
    fn python(&self) -> String {
        format!(
            "from openai import OpenAI\n\
             client = OpenAI(base_url=\"{}/v1\", api_key=\"{}\")\n\
             messages = [{{\"role\": \"user\", \"content\": \"Hello\"}}]\n\
             for chunk in client.chat.completions.create(model=\"small\", messages=messages, stream=True):\n    \
             print(chunk.choices[0].delta.content or \"\", end=\"\", flush=True)\n\
             print()\n",
            self.gateway, self.key
        )
    }

    /// Requests of which all but one a minute are refused.
    fn refusal(&self) -> String {
        format!("for n in 1 2 3; do {}; echo; done", self.curl("-sS -i", &self.tiny_key))
    }

    fn psql(&self) -> String {
        format!("psql '{}' -c \"{BILLS}\"", self.database_url)
    }

    fn redis_cli(&self) -> String {
        format!("redis-cli -u '{}' --scan --pattern 'tallyweir:*'", self.redis_url)
    }

    /// One object with all of it.
    pub(super) fn json(&self) -> Value {
        let pids: Map<_, _> =
            self.pids.iter().map(|(name, pid)| ((*name).to_owned(), (*pid).into())).collect();
        json!({
            "gateway": self.gateway,
            "key": self.key,
            "tiny_key": self.tiny_key,
            "poor_key": self.poor_key,
            "curl": self.curl("-sS", &self.key),
            "python": self.python(),
            "refusal": self.refusal(),
            "no_budget": self.curl("-sS -i", &self.poor_key),
            "metrics": {
                "gateway": format!("{}/metrics", self.gateway),
                "usage-flusher": format!("{}/metrics", self.flusher),
            },
            "psql": self.psql(),
            "redis_cli": self.redis_cli(),
            "database_url": self.database_url,
            "redis_url": self.redis_url,
            "mocks": self.mocks,
            "logs": self.folder,
            "pids": pids,
        })
    }

    /// The same for people.
    pub(super) fn text(&self) -> String {
        let Self { gateway, flusher, folder, .. } = self;
        let mocks = self.mocks.join(" ");
        let first = self.mocks.first().map_or("", String::as_str);
        format!(
            "\nThe gateway is at {gateway}\n\n\
             A request:\n\n{curl}\n\n\
             A stream, with OpenAI's own client (pip install openai):\n\n\
             python3 - <<'END'\n{python}END\n\n\
             A refusal: this key has one request a minute, the next one no money:\n\n{refusal}\n\n{no_budget}\n\n\
             The bills, a second later, and what Redis holds:\n\n{psql}\n\n{redis_cli}\n\n\
             An upstream that fails (-d '{{}}' takes it back), and what it journals:\n\n\
             curl -sS {first}/control -d '{{\"mock\":\"status=503\"}}'\n\ncurl -sS {first}/journal\n\n\
             metrics    {gateway}/metrics  {flusher}/metrics\n\
             state      {gateway}/readyz  {flusher}/status\n\
             upstreams  {mocks}\n\
             logs       {folder}\n\n\
             Ctrl-C stops all of it; nothing is kept.\n",
            curl = self.curl("-sS", &self.key),
            python = self.python(),
            refusal = self.refusal(),
            no_budget = self.curl("-sS -i", &self.poor_key),
            psql = self.psql(),
            redis_cli = self.redis_cli(),
            folder = folder.display(),
        )
    }
}
