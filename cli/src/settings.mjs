/** Maps the hub's permission modes and model modes to the agent's, and back. */

import { APPROVE_EVERYTHING } from 'session-gateway-cli-kit/permissions';

/** The hub's modes that approve everything. For an agent that is not in the table, the bridge approves each request. */
const APPROVE_ALL_MODES = ['bypassPermissions', 'yolo'];

/**
 * Returns what a permission mode means for the agent.
 * @param {string} word the hub's word, or the id of a mode of the agent
 * @param {{title: string, entry?: import('./agents.mjs').AgentEntry}} launch
 * @param {{id: string, name: string}[]} modes the agent's own
 * @returns {{modeId: string | null, approvesAll: boolean}} `modeId`: the mode to set; null: none; `approvesAll`: whether the
 *   bridge approves every request itself
 * @throws {Error} when the agent has no such mode
 */
export function toAgentMode(word, { title, entry }, modes) {
  const modeIds = entry?.modes ?? {};
  const hasMode = (id) => modes.some((mode) => mode.id === id);
  const wanted = Object.hasOwn(modeIds, word) ? modeIds[word] : word;
  if (hasMode(wanted)) return { modeId: wanted, approvesAll: false };
  const approvedByBridge = entry ? (entry.approvedByBridge ?? []) : APPROVE_ALL_MODES;
  if (approvedByBridge.includes(word)) return { modeId: hasMode(modeIds.default) ? modeIds.default : null, approvesAll: true };
  if (word === 'default') return { modeId: null, approvesAll: false };
  const names = modes.map(({ id }) => id).join(', ');
  throw new Error(`${title} has no mode ${word}. ${names === '' ? 'It has no modes.' : `Its modes are: ${names}.`}`);
}

/** Returns the hub's word for a mode of the agent; the mode's own id if the hub has none. */
export function toPermissionMode(modeId, entry) {
  return Object.entries(entry?.modes ?? {}).find(([, id]) => id === modeId)?.[0] ?? modeId;
}

/** The mode of an agent without modes. @type {ReturnType<typeof toOfferedMode>} */
const DEFAULT_MODE = { id: 'default', name: 'Ask', description: 'Asks as the agent is set up to' };

/**
 * Returns a mode as it is offered to clients. A mode that never asks has the same name for all agents. Its description contains the
 * agent's own name for the mode.
 * @param {{id: string, name?: string, description?: string}} mode
 * @returns {{id: string, name: string, description?: string, neverAsks?: boolean}}
 */
function toOfferedMode({ id, name, description }) {
  if (!APPROVE_ALL_MODES.includes(id)) return { id, name, ...(description === undefined ? {} : { description }) };
  const own = name === undefined ? '' : ` (${name})`;
  return { id, name: APPROVE_EVERYTHING.label, description: `Approves every request without asking${own}`, neverAsks: true };
}

/**
 * Returns the permission modes to offer: the agent's own modes, and one that approves everything. A mode of the agent that
 * corresponds to a mode of the hub has the hub's name, so that clients show it once.
 * @param {{id: string, name: string, description?: string}[]} modes the agent's own
 * @param {import('./agents.mjs').AgentEntry} [entry]
 */
export function toOfferedModes(modes, entry) {
  const own = modes.map((mode) => toOfferedMode({ ...mode, id: toPermissionMode(mode.id, entry) }));
  const offered = own.length === 0 ? [DEFAULT_MODE] : own;
  const [byBridge] = entry ? (entry.approvedByBridge ?? []) : ['yolo'];
  const isComplete = byBridge === undefined || offered.some(({ neverAsks }) => neverAsks);
  return isComplete ? offered : [...offered, toOfferedMode({ id: byBridge })];
}

/**
 * Returns the agent's model for a model mode.
 * @param {string} word the hub's word, or the id of a model of the agent
 * @param {{title: string, entry?: import('./agents.mjs').AgentEntry}} launch
 * @param {{id: string}[]} models the agent's own
 * @param {string | undefined} initialModel the model at the start, for the word `default`
 * @returns {string | null} null: nothing to set
 * @throws {Error} when the agent has no such model
 */
export function toAgentModel(word, { title, entry }, models, initialModel) {
  const wanted = entry?.models && Object.hasOwn(entry.models, word) ? entry.models[word] : word;
  if (models.some(({ id }) => id === wanted)) return wanted;
  if (word === 'default') return initialModel ?? null;
  throw new Error(`${title} has no model ${word}. Its models are: ${models.map(({ id }) => id).join(', ') || 'not known'}.`);
}
