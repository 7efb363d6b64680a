/** Which updates change only the state of a session. */

/** Updates that an agent may repeat while it hangs. */
const UPDATES_WITHOUT_WORK = [
  'available_commands_update',
  'config_option_update',
  'current_mode_update',
  'session_info_update',
  'usage_update',
];

/** Updates that tell the user why the agent waits. */
const WAIT_UPDATES = ['model_retry', 'notice'];

/** Updates of a session's state, as opposed to its conversation. */
export const STATE_UPDATES = new Set([...UPDATES_WITHOUT_WORK, ...WAIT_UPDATES]);

/** Whether an update shows that the agent works, or tells the user why it waits. */
export const showsWork = (/** @type {any} */ update) => !UPDATES_WITHOUT_WORK.includes(update?.sessionUpdate);
