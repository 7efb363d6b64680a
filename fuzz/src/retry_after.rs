//! Responses of push services: each line of the input is a status and a `Retry-After` header. With any responses, a
//! notification is sent at most five times, each attempt within an hour of the previous one, and its delivery ends.

use std::time::{Duration, UNIX_EPOCH};

use session_gateway_hub::hub::core::push::delivery::{
    Delivery, Failure, MAX_PUSH_ATTEMPTS, MAX_PUSH_RETRY_MS, SendResult,
};
use session_gateway_hub::push::endpoint::EndpointId;
use session_gateway_hub::push::payload::Notification;

const NOW: u64 = 784_111_770_000;

pub fn run(input: &str) {
    let responses = input.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let responses: Vec<(u16, &str)> = responses.map(|(status, text)| (status.parse().unwrap_or(429), text)).collect();
    for (status, text) in &responses {
        check_parsing(*status, text);
    }
    check_delivery(&responses);
}

fn check_parsing(status: u16, text: &str) {
    let result = SendResult::from_response(status, Some(text), NOW);
    let SendResult::Retry(delay) = result else {
        return assert_eq!(result, SendResult::from_response(status, None, NOW));
    };
    assert!(status == 429 || (500..600).contains(&status));
    let text = text.trim();
    match delay {
        Some(delay) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let seconds: u64 = text.parse().expect("a number");
            assert_eq!(delay, seconds.saturating_mul(1_000));
        }
        // A date in the preferred format (RFC 9110 section 5.6.7) formats to the same text.
        Some(delay) if delay > 0 && text.ends_with(" GMT") && text.len() == 29 => {
            assert_eq!(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(NOW + delay)), text);
        }
        _ => {}
    }
}

fn check_delivery(responses: &[(u16, &str)]) {
    let mut delivery = Delivery::new(Notification::ready("s", "demo", "alpha"), NOW, NOW, true);
    delivery.set_targets([EndpointId::of("https://a.com/1")].into_iter(), NOW);
    let (mut now, mut attempts) = (NOW, 0);
    for (status, text) in responses.iter().cycle().take(2 * MAX_PUSH_ATTEMPTS as usize) {
        let Some(due_at) = delivery.targets.first().map(|target| target.due_at) else { break };
        assert!(due_at >= now && due_at - now <= MAX_PUSH_RETRY_MS, "retried {} ms later", due_at - now);
        now = due_at;
        let target = delivery.take_due_targets(now).pop().expect("it is due");
        let failure = Failure { service: "https://a.com".into(), status: Some(*status), reason: String::new() };
        delivery.record_result(target, SendResult::from_response(*status, Some(text), now), failure, now);
        attempts += 1;
    }
    assert!(attempts <= MAX_PUSH_ATTEMPTS && (responses.is_empty() || delivery.targets.is_empty()));
    let finished = delivery.sent_count as usize + delivery.failure_count();
    assert_eq!(finished, usize::from(!responses.is_empty()));
}
