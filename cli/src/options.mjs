/** The options of an agent other than its mode and its model, such as its effort, as they are offered to clients. */

import { asList, firstLine, isObject, isText } from './translate/values.mjs';

/** Limits on the options in the session's metadata. The hub accepts 128,000 bytes. */
const MAX_OPTIONS = 50;
const MAX_CHOICES = 300;
const MAX_OPTIONS_BYTES = 100_000;

const MAX_ID_CHARS = 200;
const MAX_NAME_CHARS = 100;
const MAX_DESCRIPTION_CHARS = 200;

/**
 * `value`: the id of a choice, or whether a `boolean` is on.
 * @typedef {{id: string, name: string, description?: string, category?: string, type: 'select' | 'boolean', value: string | boolean,
 *   choices?: {id: string, name: string, description?: string}[]}} AgentOption
 */

/**
 * Returns the options to offer. Leaves out the mode and the model, which clients set in another way, and options of the category
 * `permissions`: these options would bypass the permission modes that a deployment forbids.
 * @param {unknown} configOptions as the agent sent them
 * @returns {AgentOption[]}
 */
export function toOptions(configOptions) {
  const offered = new Map();
  let bytes = 0;
  for (const configOption of asList(configOptions)) {
    if (offered.size >= MAX_OPTIONS) break;
    const option = isObject(configOption) && isOffered(configOption) ? toOption(configOption) : null;
    if (option === null || offered.has(option.id)) continue;
    bytes += Buffer.byteLength(JSON.stringify(option)) + 1;
    if (bytes > MAX_OPTIONS_BYTES) break;
    offered.set(option.id, option);
  }
  return [...offered.values()];
}

const isOffered = (/** @type {Record<string, any>} */ { category, type }) =>
  category !== 'permissions' && !(['mode', 'model'].includes(category) && type === 'select');

/** @param {Record<string, any>} option @returns {AgentOption | null} null if the option is invalid */
function toOption({ id, name, description, type, category, currentValue: value, options }) {
  const common = { ...describe({ id, name, description }), ...(isText(category) ? { category: cut(category, MAX_NAME_CHARS) } : {}) };
  if (!isId(common.id)) return null;
  if (type === 'boolean') return typeof value === 'boolean' ? { ...common, type, value } : null;
  if (type !== 'select' || !isId(value)) return null;
  return { ...common, type, value, choices: choicesOf(options) };
}

/** Returns the choices of a select. An agent may send the choices in groups. */
const choicesOf = (options) =>
  asList(options)
    .filter(isObject)
    .flatMap((choice) => (Array.isArray(choice.options) ? choice.options.filter(isObject) : [choice]))
    .map(({ value, name, description }) => describe({ id: value, name, description }))
    .filter(({ id }) => isId(id))
    .slice(0, MAX_CHOICES);

const describe = (/** @type {{id: any, name?: any, description?: any}} */ { id, name, description }) => ({
  id,
  name: firstLine(isText(name) ? name : String(id), MAX_NAME_CHARS),
  ...(isText(description) ? { description: cut(description, MAX_DESCRIPTION_CHARS) } : {}),
});

const cut = (text, maxChars) => text.slice(0, maxChars).toWellFormed();

const isId = (id) => isText(id) && id.length <= MAX_ID_CHARS && id.isWellFormed();

/**
 * Returns the value to set for an option.
 * @param {AgentOption} option
 * @param {unknown} value a boolean may be a text, because a command line contains only texts
 * @returns {string | boolean}
 * @throws {Error} when the option cannot have the value. The agent checks the choices itself
 */
export function toValue({ type, name }, value) {
  if (type === 'select' && isText(value)) return value;
  const isOn = [true, 'true'].includes(/** @type {any} */ (value));
  if (type === 'boolean' && (isOn || [false, 'false'].includes(/** @type {any} */ (value)))) return isOn;
  throw new Error(
    `${name} is ${type === 'boolean' ? 'on or off: its value must be true or false' : 'a choice: its value must be a text'}.`,
  );
}
