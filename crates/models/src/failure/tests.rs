use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use weir_types::FailureClass::{
    Auth, ContextOverflow, Invalid, Overloaded, Quota, RateLimited, Refused, Transport,
};

use weir_types::FailureClass;

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

/// Errors as the providers document them, or as their users report them.
const RESPONSES: &[(u16, FailureClass, &str)] = &[
    // Anthropic
    (
        429,
        RateLimited,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of requests has exceeded your limit"}}"#,
    ),
    (529, Overloaded, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
    (401, Auth, r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#),
    (403, Auth, r#"{"type":"error","error":{"type":"permission_error","message":"no access"}}"#),
    (
        400,
        Quota,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
    ),
    (402, Quota, r#"{"type":"error","error":{"type":"billing_error","message":"check billing"}}"#),
    (
        400,
        ContextOverflow,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
    ),
    (
        400,
        ContextOverflow,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000"}}"#,
    ),
    (
        413,
        ContextOverflow,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
    ),
    (500, Transport, r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#),
    (404, Invalid, r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#),
    // OpenAI
    (
        429,
        RateLimited,
        r#"{"error":{"message":"Rate limit reached for gpt-5","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
    ),
    (
        429,
        Quota,
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
    ),
    (
        400,
        ContextOverflow,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    (
        400,
        ContextOverflow,
        r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":null}}"#,
    ),
    (
        401,
        Auth,
        r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
    ),
    (
        400,
        Refused,
        r#"{"error":{"message":"Invalid prompt: limited access","type":"invalid_request_error","code":"invalid_prompt"}}"#,
    ),
    (
        400,
        Refused,
        r#"{"error":{"message":"The response was filtered","type":null,"code":"content_filter"}}"#,
    ),
    (
        503,
        Overloaded,
        r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error"}}"#,
    ),
    (
        400,
        Invalid,
        r#"{"error":{"message":"Unknown parameter","type":"invalid_request_error","code":"unknown_parameter"}}"#,
    ),
    // Google
    (
        429,
        RateLimited,
        r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]}]}}"#,
    ),
    (
        429,
        Quota,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}]"#,
    ),
    (
        503,
        Overloaded,
        r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
    ),
    (
        400,
        Auth,
        r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
    ),
    (
        400,
        ContextOverflow,
        r#"{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
    ),
    (
        500,
        Transport,
        r#"{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}"#,
    ),
    // Mistral
    (
        422,
        Invalid,
        r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","store"]}]},"type":"invalid_request_error","code":null}"#,
    ),
    (
        400,
        ContextOverflow,
        r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}"#,
    ),
    (401, Auth, r#"{"detail":"Unauthorized"}"#),
    // vLLM, llama.cpp, Ollama
    (
        400,
        ContextOverflow,
        r#"{"object":"error","message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}"#,
    ),
    (
        400,
        ContextOverflow,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_ctx":4096}}"#,
    ),
    (
        500,
        ContextOverflow,
        r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
    ),
    (400, ContextOverflow, r#"{"error":"the input length exceeds the context length"}"#),
    (
        404,
        Invalid,
        r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","code":null}}"#,
    ),
    // Somebody in between
    (502, Transport, "<html><body>Bad Gateway</body></html>"),
    (429, RateLimited, "slow down"),
    (418, Invalid, ""),
];

#[test]
fn every_providers_words_have_a_class() {
    for (status, class, body) in RESPONSES {
        let error = of_response(*status, &HeaderMap::new(), body);
        assert_eq!(error.class, *class, "{status} {body}");
    }
}

#[test]
fn the_message_says_what_the_server_said() {
    let message = |status, body: &str| of_response(status, &HeaderMap::new(), body).message;
    assert_eq!(
        message(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        "the server answers 529: overloaded_error: Overloaded"
    );
    assert_eq!(message(400, r#"{"error":{"code":400}}"#), "the server answers 400: no reason given");
    assert_eq!(message(500, r#"{"error":"boom"}"#), "the server answers 500: boom");
    let html = headers(&[("content-type", "text/html; charset=utf-8")]);
    assert_eq!(
        of_response(200, &html, "<p>hi").message,
        "the server answers 200 with `text/html; charset=utf-8`: is `base_url` right? <p>hi"
    );
}

#[test]
fn an_event_is_a_failure_only_if_it_says_so() {
    let class = |event: &str| of_event(&serde_json::from_str(event).unwrap()).map(|error| error.class);
    assert_eq!(
        class(r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#),
        Some(Overloaded)
    );
    assert_eq!(class(r#"{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}"#), Some(Overloaded));
    assert_eq!(class(r#"{"error":{"code":429,"message":"x"}}"#), Some(RateLimited));
    assert_eq!(class(r#"{"type":"error","code":"server_error","message":"x"}"#), Some(Transport));
    assert_eq!(class(r#"{"error":null,"choices":[]}"#), None);
    assert_eq!(class(r#"{"type":"message_start","message":{}}"#), None);
    assert_eq!(class(r#"{"choices":[]}"#), None);
}

#[test]
fn delays_come_from_headers_fields_and_sentences() {
    let check = |pairs: &[(&str, &str)], body: &str, expected: Option<Duration>| {
        assert_eq!(of_response(429, &headers(pairs), body).retry_after, expected, "{pairs:?} {body}");
    };
    let ms = |ms| Some(Duration::from_millis(ms));
    check(&[("retry-after", "7")], "", ms(7_000));
    check(&[("retry-after", "1.5"), ("retry-after-ms", "1250")], "", ms(1_250));
    check(
        &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), ("date", "Sun, 06 Nov 1994 08:49:07 GMT")],
        "",
        ms(30_000),
    );
    check(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], "", ms(0));
    check(&[("retry-after", "99999999999999999999")], "", None);
    check(&[("retry-after", "1e9")], "", Some(Duration::from_secs(86_400)));
    check(&[("retry-after", "-1")], "", None);
    check(&[("retry-after", "soon")], "", None);
    let google = r#"{"error":{"code":429,"message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}"#;
    check(&[], google, Some(Duration::from_nanos(34_074_824_224)));
    check(
        &[],
        r#"{"error":{"message":"Rate limit reached. Please try again in 1m30.5s. Visit us"}}"#,
        ms(90_500),
    );
    check(&[], r#"{"error":{"message":"Please try again in 20ms."}}"#, ms(20));
    check(&[], r#"{"error":{"message":"Please try again in a while."}}"#, None);
}
