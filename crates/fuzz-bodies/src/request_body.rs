//! Bodies that clients send to the gateway.

use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use gateway::fuzzing::{Understood, ask};
use gateway::{Config, Kind};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// What the upstream calls the model.
const UPSTREAM_MODEL: &str = "upstream/\"model\"";
/// Fields that the gateway may set or change. All others are the client's.
const OURS: [&str; 3] = ["model", "stream_options", "max_completion_tokens"];

/// The models that a client may name.
static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let model = |name: &str, kind: &str| {
        format!(
            "[[models]]\nname = \"{name}\"\nkind = \"{kind}\"\ncontext_tokens = 1000\ndefault_max_tokens = 100\n\
             [[models.deployments]]\nid = \"{name}-a\"\nbase_url = \"http://127.0.0.1:1/v1\"\ninput_usd_per_million = \"1\"\n"
        )
    };
    let text = model("small", "chat") + &model("embed", "embedding");
    Config::parse(&text, |_| None).expect("a configuration of two models")
});

/// A body is refused with 4xx, or the upstream gets one that differs only where it must: its model, a bound of the answer, and in
/// a stream the wish for usage. The estimate bounds the answer that the upstream is allowed.
///
/// # Panics
///
/// When that does not hold.
pub fn check(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    for kind in [Kind::Chat, Kind::Embedding] {
        match ask(kind, &body, &CONFIG, UPSTREAM_MODEL) {
            Err(status) => assert!((400..500).contains(&status), "{status}"),
            Ok(understood) => passed_on(kind, bytes, &understood),
        }
    }
}

/// The names of an object, as often as they are there.
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

fn passed_on(kind: Kind, given: &[u8], understood: &Understood) {
    // The gateway does not look into what it passes on, so it takes what a whole reading refuses: deep lists, huge numbers.
    let Ok(given) = serde_json::from_slice::<Map<String, Value>>(given) else { return };
    let sent: Map<String, Value> =
        serde_json::from_slice(&understood.upstream_body).expect("the upstream gets a JSON object");
    let Names(names) = serde_json::from_slice(&understood.upstream_body).expect("an object has names");
    assert_eq!(names.len(), sent.len(), "a name is there twice: readers differ in which one counts");
    assert_eq!(sent["model"], UPSTREAM_MODEL);
    let others = |fields: &Map<String, Value>| {
        let mut fields = fields.clone();
        OURS.iter().for_each(|name| drop(fields.remove(*name)));
        fields
    };
    assert_eq!(others(&sent), others(&given), "what is not ours is the client's");
    assert_eq!(understood.stream, given.get("stream").and_then(Value::as_bool).unwrap_or_default());
    match kind {
        Kind::Embedding => {
            assert!(!understood.stream);
            assert_eq!(sent.get("max_completion_tokens"), given.get("max_completion_tokens"));
        }
        Kind::Chat => {
            let bound = |fields: &Map<String, Value>, name: &str| fields.get(name).and_then(Value::as_u64);
            let told = bound(&sent, "max_completion_tokens").or_else(|| bound(&sent, "max_tokens"));
            let told = told.expect("an upstream is always told a bound");
            assert!(told >= 1, "an answer of nothing is no answer");
            let answers = bound(&given, "n").unwrap_or(1);
            // More than the context has room for cannot come, however much was asked for.
            assert!(understood.estimate >= told.min(1_000) && understood.estimate > answers);
            if understood.stream {
                assert_eq!(sent["stream_options"]["include_usage"], Value::Bool(true));
            } else {
                assert_eq!(sent.get("stream_options"), given.get("stream_options"));
            }
        }
    }
}
