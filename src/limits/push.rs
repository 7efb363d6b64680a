//! The limits of push notifications.

/// The longest endpoint of a subscription, in bytes.
pub const MAX_ENDPOINT_BYTES: usize = 2_048;
/// The payload limit for a push service that rejected a longer payload, in bytes. The data always fits.
pub const SHORT_PAYLOAD_BYTES: usize = 2_000;
/// The largest number of requests that one notification supersedes.
pub const MAX_SUPERSEDED: usize = 100;
/// The longest name of a device, in bytes.
pub const MAX_DEVICE_BYTES: usize = 64;
/// How long after a toast a push to the same device is held back, in milliseconds. A page is in use for as long after its last
/// input.
pub const PUSH_HOLD_MS: u64 = 60_000;
/// How long a push service may take to respond, in milliseconds. No request waits for a connection first.
pub const PUSH_TIMEOUT_MS: u32 = 10_000;
/// How long a permission request waits for further ones of its session, in milliseconds (PROTOCOL-PUSH.md "Push notifications").
pub const PUSH_DEBOUNCE_MS: u64 = 500;
/// How long after a `Ready` notification further ones of its session are dropped, in milliseconds.
pub const PUSH_COOLDOWN_MS: u64 = 5_000;
/// The maximum number of queued notifications.
pub const MAX_QUEUED_PUSHES: usize = 200;
/// The number of notifications in the queue up to which a further one is held back after its toast.
pub const MAX_HELD_PUSHES: usize = MAX_QUEUED_PUSHES / 2;
/// The maximum number of attempts to send a notification to one subscriber, and to read the database for it.
pub const MAX_PUSH_ATTEMPTS: u32 = 5;
/// The delay after the first attempt, in milliseconds. It is four times as long after each further one.
pub const FIRST_PUSH_RETRY_MS: u64 = 5_000;
/// The longest `Retry-After` of a push service that is followed, in milliseconds: a later notification is of no use.
pub const MAX_PUSH_RETRY_MS: u64 = 3_600_000;
/// How many errors a queued notification stores, each of subscribers that failed and of subscribers that are retried. With
/// [`MAX_PUSH_SUBSCRIPTIONS`] it must fit a value of the key-value storage (2 MB).
pub const MAX_PUSH_FAILURES: usize = 10;
/// How many requests to push services a namespace has in flight. The platform opens at most six connections of an object at
/// a time, and those to D1 are among them: one is reserved, so that slow push services cannot block the database.
pub const MAX_PUSHES_IN_FLIGHT: usize = 5;
/// How many requests a namespace has in flight to one push service, so that an unresponsive one leaves slots to the others.
pub const MAX_PUSHES_IN_FLIGHT_PER_SERVICE: usize = 3;
/// How many push messages a namespace sends in a minute. Each costs a millisecond or two of a thread that others may share.
pub const MAX_PUSHES_PER_MINUTE: u32 = 600;
/// The default of `PUSH_MAX_SUBSCRIPTIONS`: on its smallest plan, the platform limits an event to 50 outgoing requests.
pub const DEFAULT_PUSH_SUBSCRIPTIONS: u64 = 50;
/// The largest valid `PUSH_MAX_SUBSCRIPTIONS`: with more, a queued notification would not fit a value of the key-value storage.
pub const MAX_PUSH_SUBSCRIPTIONS: u64 = 1_000;
/// How long the hub assumes that there are no subscribers after it read none, in milliseconds: a restored database may have some.
pub const ASSUME_NO_SUBSCRIBERS_MS: u64 = 24 * 60 * 60 * 1000;
/// How many notifications the push log shows.
pub const MAX_PUSH_LOG_ENTRIES: usize = 100;
