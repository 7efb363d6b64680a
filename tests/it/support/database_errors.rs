//! Messages of errors of D1.

/// Messages of errors after which the outcome of a batch is unknown: messages that D1 is known to return, and other
/// messages.
pub const UNKNOWN_OUTCOMES: [&str; 18] = [
    "D1_ERROR: Network connection lost.",
    "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
    "D1_ERROR: D1 DB reset because its code was updated.",
    "D1_ERROR: D1 DB's isolate exceeded its memory limit and was reset.",
    "D1_ERROR: D1 DB exceeded its CPU time limit and was reset.",
    "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
    "D1_ERROR: D1 DB is overloaded. Too many requests queued.",
    "D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset.",
    "D1_ERROR: Internal error in D1 DB storage caused object to be reset.",
    "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
    "D1_ERROR: The client disconnected.",
    "D1_ERROR: internal error",
    "D1 did not answer in time",
    "D1_ERROR: disk I/O error: SQLITE_IOERR",
    "database is locked",
    "Promise will never complete.",
    "TypeError: fetch failed",
    "",
];

/// Messages of errors at a limit of the plan.
pub const LIMITS_REACHED: [&str; 5] = [
    "D1_ERROR: Your account has exceeded D1's free tier daily row read limit. Upgrade to a paid plan or wait until tomorrow \
    (midnight UTC) to continue.",
    "D1_ERROR: Your account has exceeded D1's free tier daily row write limit. Upgrade to a paid plan or wait until tomorrow \
    (midnight UTC) to continue.",
    "D1_ERROR: Your account has exceeded D1's maximum account storage limit, please contact Cloudflare to raise your limit",
    "D1_ERROR: Exceeded maximum DB size.",
    "D1_ERROR: database or disk is full: SQLITE_FULL",
];
