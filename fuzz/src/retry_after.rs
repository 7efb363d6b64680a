//! What push services answer. Each of the input's lines is a status and a header `Retry-After`: whatever they say, a
//! message is sent five times at most, each time within an hour, and comes to an end.

use std::time::{Duration, UNIX_EPOCH};

use session_gateway_hub::hub::push::queue::{Failure, Item, MAX_PAUSE_MS, MAX_TRIES, Verdict};
use session_gateway_hub::push::endpoint::EndpointId;
use session_gateway_hub::push::payload::Notification;

const NOW: u64 = 784_111_770_000;

pub fn run(input: &str) {
    let answers = input.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let answers: Vec<(u16, &str)> = answers.map(|(status, text)| (status.parse().unwrap_or(429), text)).collect();
    for (status, text) in &answers {
        read(*status, text);
    }
    sent(&answers);
}

fn read(status: u16, text: &str) {
    let Verdict::Again(pause) = Verdict::of(status, Some(text), NOW) else {
        return assert_eq!(Verdict::of(status, Some(text), NOW), Verdict::of(status, None, NOW));
    };
    assert!(status == 429 || (500..600).contains(&status));
    let text = text.trim();
    match pause {
        Some(pause) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let seconds: u64 = text.parse().expect("a number");
            assert_eq!(pause, seconds.saturating_mul(1_000));
        }
        // A date of today's form, written again, is the same text.
        Some(pause) if pause > 0 && text.ends_with(" GMT") && text.len() == 29 => {
            assert_eq!(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(NOW + pause)), text);
        }
        _ => {}
    }
}

fn sent(answers: &[(u16, &str)]) {
    let mut item = Item::new(Notification::ready("s", "demo", "alpha"), NOW, NOW);
    assert!(item.address([EndpointId::of("https://a.com/1")].into_iter(), NOW));
    let (mut now, mut tries) = (NOW, 0);
    for (status, text) in answers.iter().cycle().take(2 * MAX_TRIES as usize) {
        let Some(due) = item.targets.first().map(|target| target.due) else { break };
        assert!(due >= now && due - now <= MAX_PAUSE_MS, "asked again {} ms later", due - now);
        now = due;
        let target = item.take_due(now).pop().expect("it is due");
        let failure = Failure { service: "https://a.com".into(), status: Some(*status), reason: String::new() };
        item.answered(target, Verdict::of(*status, Some(text), now), failure, now);
        tries += 1;
    }
    assert!(tries <= MAX_TRIES && (answers.is_empty() || item.is_done()));
    assert_eq!(item.sent as usize + item.failures(), usize::from(!answers.is_empty()));
}
