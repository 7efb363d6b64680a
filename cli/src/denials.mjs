/** The user's reasons for denials. The answer to a permission request has no field for a reason, so the next prompt begins with the reason. */

const MAX_CALL_CHARS = 200;

/**
 * Returns a sentence about a denied call.
 * @param {{tool: string, arguments: Record<string, any>}} request
 * @param {string} reason
 */
export function describeDenial({ tool, arguments: args }, reason) {
  if (typeof args.plan === 'string') return `The user did not approve the plan: ${reason}`;
  const { command, file_path: file, title } = args;
  const [call = ''] = [command, file, title].filter((value) => typeof value === 'string');
  const [line] = call.trim().split('\n', 1);
  const shown = line.length > MAX_CALL_CHARS ? `${line.slice(0, MAX_CALL_CHARS).toWellFormed()}…` : line;
  return `The user denied ${tool}${shown === '' ? '' : ` (${shown})`}: ${reason}`;
}

/**
 * Puts sentences about denials before a message. Does not change a slash command, because agents recognize a command only at the start.
 * @param {{text?: string, attachments?: object[]}} message
 * @param {string[]} [denials]
 * @returns {{text: string, hasDenials: boolean}}
 */
export function withDenials({ text = '', attachments = [] }, denials = []) {
  const isEmpty = text === '' && attachments.length === 0;
  if (denials.length === 0 || isEmpty || text.startsWith('/')) return { text, hasDenials: false };
  return { text: [...denials, ...(text === '' ? [] : ['', text])].join('\n'), hasDenials: true };
}
