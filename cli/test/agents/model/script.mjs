/**
 * The steps of the scripted model. The newest prompt with a script determines the steps. Each response has the steps up to and including
 * the next tool call.
 *
 * @typedef {{say?: string | (string | Promise<string>)[], think?: string, slow?: number, run?: string, isInSandbox?: boolean, read?: string,
 *   fail?: {status: number, message: string}, write?: [string, string], edit?: [string, string, string], plan?: string, todos?: [string, string][], task?: string,
 *   ask?: [string, string[]], parallel?: Step[]}} Step
 *   - `say`: text, or pieces of text that may be promises
 *   - `think`: text of a thought
 *   - `slow`: a number of words, ten per second
 *   - `fail`: the model refuses the request
 *   - `run`: a command; `isInSandbox`: without a request to leave the sandbox of Codex
 *   - `read`: the path of a file
 *   - `write`: path and content
 *   - `edit`: path, old text and new text
 *   - `plan`: markdown
 *   - `todos`: text and status of each todo item
 *   - `task`: the prompt of a sub-agent, which has steps of its own
 *   - `ask`: a question and its choices
 *   - `parallel`: tool calls in one response
 * @typedef {{name: string, namespace?: string, schema?: any, isCustom?: boolean}} Tool
 * @typedef {{id: string, name: string, namespace?: string, input: any, isCustom?: boolean}} Call
 * @typedef {{role: string, text?: string}[]} History `role`: `user`, `call` or `result`
 */

const SLOW_MS = 100;

let count = 0;
export const nextId = (prefix) => `${prefix}_${Date.now().toString(36)}${(count += 1)}`;

/**
 * Returns the steps of the next response.
 * @param {History} history
 * @param {Tool[]} tools a request without tools asks for a title or another text
 * @param {{title: string, scripts: Map<string, Step[]>}} model `scripts`: the steps by prompt
 * @returns {{texts: Step[], calls: Call[]}}
 */
export function nextResponse(history, tools, { title, scripts }) {
  if (tools.length === 0) return { texts: [{ say: title }], calls: [] };
  // Agents join a prompt with an earlier, canceled prompt.
  const findPrompt = ({ role, text = '' }) => {
    const found = role === 'user' ? [...scripts.keys()].filter((prompt) => text.includes(prompt)) : [];
    return found.sort((a, b) => text.lastIndexOf(b) - text.lastIndexOf(a))[0];
  };
  const at = history.findLastIndex(findPrompt);
  if (at < 0) return { texts: [{ say: 'There is no script.' }], calls: [] };
  const steps = scripts.get(findPrompt(history[at]));
  let calls = history.slice(at + 1).filter(({ role }) => role === 'call').length;
  let from = 0;
  for (; calls > 0; calls -= 1) from += steps.slice(from).findIndex(isCall) + 1;
  const end = steps.slice(from).findIndex(isCall);
  const response = end < 0 ? steps.slice(from) : steps.slice(from, from + end + 1);
  return {
    texts: response.filter((step) => !isCall(step)),
    calls: response.filter(isCall).flatMap(({ parallel, ...step }) => (parallel ?? [step]).map((one) => toCall(one, tools))),
  };
}

const isCall = (step) =>
  ['run', 'read', 'write', 'edit', 'plan', 'todos', 'task', 'ask', 'parallel'].some((name) => step[name] !== undefined);

/** The words of a step. @param {Step} step */
export async function* wordsOf({ think, say = think ?? '', slow = 0 }) {
  for await (const text of [say].flat()) yield* text.match(/\S+\s*/g) ?? [];
  for (let i = 0; i < slow; i += 1) {
    yield `word ${i} `;
    await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
  }
}

const SHELLS = [/^bash$/i, /^run_shell_command$/, /^exec_command$/, /^shell_command$/, /^shell$/];
const READERS = [/^read$/i, /^read_file$/, /^view$/];
const WRITERS = [/^write$/i, /^write_file$/, /^create$/, /^apply_patch$/];
const PLANNERS = [/^ExitPlanMode$/, /^exit_plan_mode$/];
const STARTERS = [/^Agent$/i, /^Task$/i, /^spawn_agent$/];
/** Codex lists its tool only after a search, but runs the tool without a search. @type {Tool} */
const CODEX_STARTER = { name: 'spawn_agent', namespace: 'multi_agent_v1', schema: { properties: { message: {} } } };
const TODO_WRITERS = [/^todowrite$/, /^update_plan$/];
const ASKERS = [/^AskUserQuestion$/i, /^ask_user/, /^question$/, /^request_user_input$/];
const EDITORS = [/^edit$/i, /^replace$/, /^apply_patch$/];

/**
 * Returns a call of the agent's own tool for a step. The names of tools and fields differ between agents.
 * @param {Step} step
 * @param {Tool[]} tools
 * @returns {Call}
 */
function toCall({ run, isInSandbox, read, write, edit, plan, todos, task, ask }, tools) {
  const find = (names) => names.map((name) => tools.find((tool) => name.test(tool.name))).find(Boolean);
  const id = nextId('call');
  if (run !== undefined) {
    const tool = find(SHELLS);
    return { id, name: tool?.name ?? 'bash', input: toCommandInput(run, tool, isInSandbox) };
  }
  // Claude Code lists this tool only after a search, but runs the tool without a search.
  if (plan !== undefined) return { id, name: find(PLANNERS)?.name ?? 'ExitPlanMode', input: { plan } };
  if (todos !== undefined) {
    // Claude Code runs this tool without listing it.
    const name = find(TODO_WRITERS)?.name ?? 'TodoWrite';
    return { id, name, input: toTodosInput(todos, name) };
  }
  if (task !== undefined) {
    const { name, namespace, schema } = find(STARTERS) ?? (find([/^tool_search$/]) ? CODEX_STARTER : { name: 'Task' });
    return { id, name, ...(namespace ? { namespace } : {}), input: toTaskInput(task, { name, schema }) };
  }
  if (ask !== undefined) return toQuestionCall(ask, id, find(ASKERS)?.name ?? 'AskUserQuestion');
  const tool = find(read !== undefined ? READERS : write !== undefined ? WRITERS : EDITORS);
  // Codex reads files with commands.
  if (read !== undefined && !tool && find(SHELLS)) return toCall({ run: `cat ${read}`, isInSandbox: true }, tools);
  const name = tool?.name ?? 'missing';
  const has = fieldsOf(tool);
  const field = (...names) => names.find(has) ?? names[0];
  const pathField = field('file_path', 'filePath', 'path', 'absolute_path');
  if (read !== undefined) return { id, name, input: { [pathField]: read } };
  const toPatch = (body) => {
    const patch = `*** Begin Patch\n${body}\n*** End Patch\n`;
    return { id, name, isCustom: tool.isCustom, input: tool.isCustom ? patch : { [field('input', 'patchText')]: patch } };
  };
  if (edit !== undefined) {
    const [path, before, after] = edit;
    if (name === 'apply_patch') return toPatch(`*** Update File: ${path}\n@@\n-${before}\n+${after}`);
    const texts = { [field('old_string', 'oldString', 'old_str')]: before, [field('new_string', 'newString', 'new_str')]: after };
    return { id, name, input: { [pathField]: path, ...texts, ...(has('instruction') ? { instruction: 'Replace a line.' } : {}) } };
  }
  const [path, content] = write;
  if (name === 'apply_patch') return toPatch(`*** Add File: ${path}\n+${content}`);
  return { id, name, input: { [pathField]: path, [field('content', 'file_text')]: content } };
}

function toTodosInput(todos, name) {
  if (name === 'update_plan') return { plan: todos.map(([step, status]) => ({ step, status })) };
  const toItem = ([content, status]) => ({ content, status, ...(name === 'TodoWrite' ? { activeForm: content } : { priority: 'medium' }) });
  return { todos: todos.map(toItem) };
}

function toQuestionCall([question, labels], id, name) {
  const extra = { question: { multiple: false }, ask_user: { type: 'choice' }, request_user_input: { id: 'q1' } }[name];
  const options = labels.map((label) => ({ label, description: `${label} it is` }));
  return { id, name, input: { questions: [{ question, header: 'Choice', multiSelect: false, ...extra, options }] } };
}

function toTaskInput(prompt, tool) {
  const has = fieldsOf(tool);
  if (has('message')) return { message: prompt, ...(has('task_name') ? { task_name: 'helper' } : {}) };
  const type = has('subagent_type') ? { subagent_type: tool.name === 'task' ? 'general' : 'general-purpose' } : {};
  return { description: 'Look around', prompt, ...type, ...(has('run_in_background') ? { run_in_background: false } : {}) };
}

function toCommandInput(command, tool, isInSandbox = false) {
  const has = fieldsOf(tool);
  return {
    [has('cmd') ? 'cmd' : 'command']: command,
    ...(has('description') ? { description: 'Runs a command' } : {}),
    ...(tool?.schema?.required?.includes('is_background') ? { is_background: false } : {}),
    // Codex asks only for commands that leave its sandbox.
    ...(has('sandbox_permissions') && !isInSandbox ? { sandbox_permissions: 'require_escalated', justification: 'May I?' } : {}),
  };
}

const fieldsOf = (tool) => (name) => tool?.schema?.properties?.[name] !== undefined;
