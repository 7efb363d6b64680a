/** Sentences for people about the hub's errors. The hub's own sentences are for the authors of clients. */

/** The sentences by error code. A code is missing here if people understand the hub's own sentence. */
const TEXTS = new Map(
  Object.entries({
    already_decided: 'Somebody has already decided about this device. Show another code on the device.',
    answer_token_expired: 'This notification is too old to answer. Open the inbox.',
    answer_token_used: 'This request was answered already.',
    attachments_not_held: 'Files can only be sent while the machine is online. Remove them, or wait until the machine is back.',
    body_stalled: 'The upload was too slow. Try again with a faster connection.',
    body_too_large: 'This is too large for the hub. Shorten it.',
    check_failed: 'The machine could not check the directory. Check that the agent still runs on it.',
    cli_not_alive: 'The agent is just connecting. Try again in a few seconds.',
    cli_unreachable: 'The agent is not connected, or not ready yet. Try again in a few seconds.',
    device_not_found: 'This device is no longer in the list. It may have been revoked.',
    device_revoked: 'This device was removed. Sign in again with a new code.',
    forbidden: 'This belongs to another account.',
    held_message_not_found: 'This message was sent or canceled already.',
    invalid_access_token: 'This access token is wrong. Copy it again from where the hub was started.',
    invalid_answer_token: 'This notification can no longer be answered. Open the inbox.',
    invalid_body: 'The hub did not understand the console. Reload the page and try again.',
    invalid_path: 'This path is not inside the directory of the session.',
    machine_not_found: 'The hub does not know this machine. Start the agent on it again.',
    method_not_allowed: 'This page does not match the version of the hub. Reload the page.',
    no_machine_online: 'The machine of this session is offline. Start the agent on it again, then resume.',
    not_found: 'This page does not match the version of the hub. Reload the page.',
    not_queued: 'The agent works on this message already, or it was canceled.',
    overloaded: 'The hub is busy. Try again in a few seconds.',
    push_unsubscribed: 'This device no longer gets notifications. Open the inbox.',
    rate_limited: 'Too many attempts. Wait a minute, then try again.',
    rename_failed: 'The new name could not be stored. Try again.',
    request_changed: 'The request has changed. Look at it again.',
    request_denied: 'The request of this device was denied. Show another code on the device.',
    request_not_found: 'This request was answered or withdrawn already.',
    resume_failed: 'The session did not start in time. Check the agent on its machine.',
    resume_unavailable: 'This session cannot be resumed, because its agent stored nothing to continue from. Start a new session.',
    rpc_timeout: 'The machine did not answer in time. Try again.',
    session_active: 'The session is still active. Archive it first, then delete it.',
    session_inactive: 'The agent is not connected. Wait until its machine is back, or resume the session.',
    session_not_found: 'This session does not exist. It may have been deleted.',
    storage_full: 'The storage of this account is full. Delete sessions that are no longer needed, and try again.',
    too_many_codes: 'Too many codes are unused. Use one of them on its device, or wait 5 minutes until they expire.',
    too_many_devices: 'There are too many devices. Revoke one that is no longer used, and try again.',
    too_many_held_messages: 'Too many messages wait for this machine. Cancel some of them first.',
    too_many_messages: 'Too many messages in a minute. Wait a moment, then try again.',
    too_many_sessions: 'There are too many sessions. Delete some that are no longer needed, and try again.',
    unauthorized: 'You are signed out. Reload the page.',
    unknown_code: 'This code is not valid. It may be mistyped, used, or older than 5 minutes.',
    upload_stalled: 'The upload was too slow. Try again with a faster connection.',
    version_conflict: 'Somebody else has changed this at the same time. Try again.',
  }),
);

/** Fields of requests, as people call them. */
const FIELD_NAMES = new Map(
  Object.entries({
    accessToken: 'The access token',
    agent: 'The agent',
    branch: 'The branch',
    code: 'The code',
    directory: 'The directory',
    model: 'The model',
    name: 'The name',
    reason: 'The reason',
    text: 'The message',
    worktreeName: 'The worktree name',
  }),
);

/** Matches the name of a field in an error text of the hub or of a machine. */
const FIELD = /(?:Field )?["`]([A-Za-z]+)["`]/g;

/** Matches what only authors of clients and operators understand: code, routes, and settings of the hub. */
const INTERNAL = /`|\/(api|cli)\/|\b(JSON|D1|RPC|metadata|VOCABULARY|VAPID|npm run|[A-Z]+_[A-Z_]+)\b/;

/** Replaces the names of fields by the names that people use. Leaves other names unchanged. */
export const replaceFieldNames = (text: string): string => text.replace(FIELD, (match, field: string) => FIELD_NAMES.get(field) ?? match);

/** Whether an error code has its own sentence. */
export const hasText = (code: string): boolean => TEXTS.has(code);

/** Returns the text to show for an error response. `message` is the hub's sentence, if there is one. */
export function textForPeople(status: number, code: string, message: string | undefined): string {
  const text = TEXTS.get(code);
  if (text !== undefined) return text;
  const named = message === undefined ? '' : replaceFieldNames(message);
  if (named !== '' && !INTERNAL.test(named)) return named;
  return status >= 500
    ? 'The hub has a problem. Try again in a few seconds.'
    : 'The hub did not accept this. Reload the page and try again.';
}
