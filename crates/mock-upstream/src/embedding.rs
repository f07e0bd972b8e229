//! Embeddings: vectors that depend on the input alone.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

use crate::answer;
use crate::behaviour::Failure;
use crate::chat::fail;
use crate::journal::Kind;
use crate::message::{EmbeddingRequest, Encoding, Measured};
use crate::refusal::Refusal;
use crate::server::{App, Asked};

/// The length of a vector when nothing asks for another.
const USUAL_DIMENSIONS: u32 = 8;

#[derive(Serialize)]
struct Embeddings {
    object: &'static str,
    data: Vec<Embedding>,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
}

pub(crate) async fn embeddings(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    app.authorize(&headers)?;
    let request = EmbeddingRequest::read(&body)?;
    let behaviour = request.behaviour()?.or(app.usual());
    let inputs = request.inputs();
    let prompt = inputs.iter().map(|input| input.tokens).sum();
    let asked = Asked { model: &request.model, kind: Kind::Embedding, stream: false, prompt, cached: 0 };
    let mut record = app.begin(&headers, asked);

    let dimensions = request.dimensions.unwrap_or(USUAL_DIMENSIONS);
    let encoding = request.encoding_format;
    let data = inputs.iter().enumerate().map(|(index, input)| Embedding {
        object: "embedding",
        index,
        embedding: vector(*input, dimensions, encoding),
    });
    let body = answer::json(&Embeddings {
        object: "list",
        data: data.collect(),
        model: request.model.clone().into_owned(),
        usage: (!behaviour.no_usage).then_some(Usage { prompt_tokens: prompt, total_tokens: prompt }),
    });
    drop(request);

    app.wait(behaviour.latency).await;
    if let Some(failed) = fail(&mut record, behaviour.failure, "application/json").await {
        return failed;
    }
    if behaviour.failure == Some(Failure::Half) {
        record.failed("half");
        return Ok(answer::half(&body));
    }
    record.complete();
    Ok(answer::ok("application/json", body.into()))
}

/// Numbers that look random, scaled to a vector of length 1.
fn vector(input: Measured, dimensions: u32, encoding: Encoding) -> Vector {
    let mut state = input.digest;
    let mut next = || {
        // The generator and its constants: Vigna, splitmix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [.., high, low] = (mixed ^ (mixed >> 31)).to_be_bytes();
        f32::from(i16::from_be_bytes([high, low])) + 0.5
    };
    let numbers: Vec<f32> = (0..dimensions).map(|_| next()).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    let scaled = numbers.iter().map(|number| number / length);
    match encoding {
        Encoding::Float => Vector::Numbers(scaled.collect()),
        Encoding::Base64 => {
            Vector::Base64(STANDARD.encode(scaled.flat_map(f32::to_le_bytes).collect::<Vec<_>>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(digest: u64) -> Vec<f32> {
        match vector(Measured { tokens: 1, digest }, 16, Encoding::Float) {
            Vector::Numbers(numbers) => numbers,
            Vector::Base64(_) => panic!("numbers were asked for"),
        }
    }

    #[test]
    fn a_vector_has_length_one_and_is_its_inputs_own() {
        let length: f32 = numbers(7).iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn base64_holds_the_same_numbers() {
        let Vector::Base64(text) = vector(Measured { tokens: 1, digest: 7 }, 16, Encoding::Base64) else {
            panic!("base64 was asked for");
        };
        let bytes = STANDARD.decode(text).unwrap();
        let decoded: Vec<f32> =
            bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(decoded, numbers(7));
    }
}
