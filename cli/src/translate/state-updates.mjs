/** Which updates change only the state of a session. */

/** Updates of a session's state, as opposed to its conversation. */
export const STATE_UPDATES = new Set([
  'available_commands_update',
  'config_option_update',
  'current_mode_update',
  'model_retry',
  'notice',
  'session_info_update',
  'usage_update',
]);

/** Whether an update shows that the agent works, or tells the user why it waits. An agent that hangs may repeat its state. */
export const showsWork = (/** @type {any} */ update) =>
  ['model_retry', 'notice'].includes(update?.sessionUpdate) || !STATE_UPDATES.has(update?.sessionUpdate);
