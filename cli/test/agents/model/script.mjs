/**
 * What the scripted model does: the JSON array of steps between @@ and @@ in the newest prompt. Each response has the steps
 * up to and including the next tool call.
 *
 * @typedef {{say?: string, slow?: number, run?: string, write?: [string, string]}} Step
 *   `say`: words; `slow`: this many words, ten in a second; `run`: a command; `write`: path and content of a file
 * @typedef {{name: string, schema?: any, isCustom?: boolean}} Tool
 * @typedef {{id: string, name: string, input: any, isCustom?: boolean}} Call
 * @typedef {{role: 'user' | 'call' | 'result', text?: string}[]} History
 */

const SLOW_MS = 100;

let count = 0;
export const nextId = (prefix) => `${prefix}_${Date.now().toString(36)}${(count += 1)}`;

/**
 * Returns the steps of the next response.
 * @param {History} history
 * @param {Tool[]} tools requests without tools ask for something else, such as a title
 * @returns {{texts: Step[], calls: Call[]}}
 */
export function nextResponse(history, tools) {
  if (tools.length === 0) return { texts: [{ say: 'A title' }], calls: [] };
  const at = history.findLastIndex(({ role, text }) => role === 'user' && /@@[^]+@@/.test(text ?? ''));
  if (at < 0) return { texts: [{ say: 'There is no script.' }], calls: [] };
  const steps = JSON.parse(/@@([^]+?)@@/.exec(history[at].text)[1]);
  let calls = history.slice(at + 1).filter(({ role }) => role === 'call').length;
  const isCall = ({ run, write }) => run !== undefined || write !== undefined;
  let from = 0;
  for (; calls > 0; calls -= 1) from += steps.slice(from).findIndex(isCall) + 1;
  const end = steps.slice(from).findIndex(isCall);
  const response = end < 0 ? steps.slice(from) : steps.slice(from, from + end + 1);
  return { texts: response.filter((step) => !isCall(step)), calls: response.filter(isCall).map((step) => toCall(step, tools)) };
}

/** The words of a step. @param {Step} step */
export async function* wordsOf({ say = '', slow = 0 }) {
  yield* say.match(/\S+\s*/g) ?? [];
  for (let i = 0; i < slow; i += 1) {
    yield `word ${i} `;
    await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
  }
}

const SHELLS = [/^bash$/i, /^run_shell_command$/, /^exec_command$/, /^shell_command$/, /^shell$/];
const WRITERS = [/^write$/i, /^write_file$/, /^create$/, /^apply_patch$/];

/** Calls the agent's own tool, whatever its name and its fields are. */
function toCall({ run, write }, tools) {
  const find = (names) => names.map((name) => tools.find((tool) => name.test(tool.name))).find(Boolean);
  const id = nextId('call');
  if (write === undefined) {
    const tool = find(SHELLS);
    const has = fieldsOf(tool);
    const input = {
      [has('cmd') ? 'cmd' : 'command']: run,
      ...(has('description') ? { description: 'Runs a command' } : {}),
      ...(tool?.schema?.required?.includes('is_background') ? { is_background: false } : {}),
      // Codex asks only for commands that leave its sandbox.
      ...(has('sandbox_permissions') ? { sandbox_permissions: 'require_escalated', justification: 'May I?' } : {}),
    };
    return { id, name: tool?.name ?? 'bash', input };
  }
  const [path, content] = write;
  const tool = find(WRITERS);
  const has = fieldsOf(tool);
  if (tool?.name === 'apply_patch') {
    const patch = `*** Begin Patch\n*** Add File: ${path}\n+${content}\n*** End Patch\n`;
    return { id, name: tool.name, isCustom: tool.isCustom, input: tool.isCustom ? patch : { [has('patchText') ? 'patchText' : 'input']: patch } };
  }
  const pathField = ['filePath', 'file_path', 'path'].find(has) ?? 'file_path';
  return { id, name: tool?.name ?? 'write', input: { [pathField]: path, [has('file_text') ? 'file_text' : 'content']: content } };
}

const fieldsOf = (tool) => (name) => tool?.schema?.properties?.[name] !== undefined;
