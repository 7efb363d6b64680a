/** The agents, permission modes and models that can be chosen: from the hub's configuration and from the metadata of sessions. */

import { computed } from '@preact/signals';
import type { AgentChoice, Choice, Machine } from '../api/types.ts';
import { isString, parseObjects } from '../api/validate.ts';
import { state } from './store.ts';

/** The fields of a session's metadata that this module reads. CLIs write the metadata, so any field may be invalid. */
type Metadata = { flavor?: unknown; modes?: unknown; models?: unknown; currentModel?: unknown } | null;

/** The deployment's agents; empty until the configuration is loaded. */
export const agents = computed<AgentChoice[]>(() => state.value.config?.agents ?? []);

/** An agent that can be started. */
export type AgentOffer = Pick<AgentChoice, 'id' | 'label' | 'models'>;

/** Returns the agents that the machine lists. Returns the deployment's agents if the machine lists none. */
export function agentsOn(machine: Pick<Machine, 'metadata'> | undefined): AgentOffer[] {
  const listed: unknown = machine?.metadata?.agents;
  if (!Array.isArray(listed)) return agents.value;
  const valid = parseObjects<{ id: string; name?: string; flavor?: string }>(listed, { id: isString, name: isString, flavor: isString }, [
    'id',
  ]);
  return valid.map(({ id, name, flavor = id }) => ({ id, label: name || id, models: agentOf({ flavor })?.models ?? [] }));
}

/** The agent of a session without a flavor; undefined if the deployment does not offer that agent. */
export const defaultAgent = computed<AgentChoice | undefined>(() => agents.value.find(({ id }) => id === state.value.config?.defaultAgent));

/** Returns the agent of a session. The session's flavor is the agent's id in the deployment, or the agent's kind in the protocol. */
function agentOf(metadata: Metadata): AgentChoice | undefined {
  const flavor = metadata?.flavor ?? null;
  if (flavor === null) return defaultAgent.value;
  return agents.value.find(({ id }) => id === flavor) ?? agents.value.find(({ kind }) => kind === flavor);
}

/** The permission modes that the deployment forbids. */
const forbiddenModes = computed(() => new Set((state.value.config?.forbiddenModes ?? '').split(',')));

/** Whether the deployment allows sessions whose agent never asks. */
export const allowsNeverAsking = computed(() => !['yolo', 'bypassPermissions'].some((mode) => forbiddenModes.value.has(mode)));

/** Returns the permission modes of a session: the session's own list, or else the hub's list for the session's agent. */
export const modesOf = (metadata: Metadata): Choice[] =>
  (parseChoices(metadata?.modes) ?? agentOf(metadata)?.modes ?? []).filter(({ id }) => !forbiddenModes.value.has(id));

/** Returns the models of a session: the session's own list, or else the hub's list for the session's agent. */
export const modelsOf = (metadata: Metadata): Choice[] => parseChoices(metadata?.models) ?? agentOf(metadata)?.models ?? [];

/** Returns the model of a session: the model that the hub last reported, or else the model in the metadata. */
export function currentModel({ metadata, modelMode }: { metadata: Metadata; modelMode?: string }): string {
  return modelMode ?? (isString(metadata?.currentModel) ? metadata.currentModel : 'default');
}

/** The permission modes of all agents. */
const allModes = computed(() => agents.value.flatMap(({ modes }) => modes));

/** Returns the mode that approves file edits without asking, if the session offers that mode. */
export function acceptEditsMode(metadata: Metadata): Choice | undefined {
  const marked = new Set(allModes.value.filter(({ acceptsEdits }) => acceptsEdits).map(({ id }) => id));
  return modesOf(metadata).find(({ id }) => marked.has(id));
}

/** Returns the label of a permission mode: from the session, its agent, or any agent. Returns the mode itself if it has no label. */
export function modeLabel(mode: string, metadata: Metadata): string {
  const modes = [...(parseChoices(metadata?.modes) ?? []), ...(agentOf(metadata)?.modes ?? []), ...allModes.value];
  return modes.find(({ id }) => id === mode)?.label ?? mode;
}

/** Returns the choices that a session's metadata lists. Returns undefined if there are none. */
function parseChoices(choices: unknown): Choice[] | undefined {
  const listed = parseObjects<{ id: string; name?: string; description?: string; neverAsks?: boolean }>(choices, CHOICE_FIELDS, ['id']);
  if (listed.length === 0) return undefined;
  return listed.map(({ id, name, description, neverAsks }) => ({
    id,
    label: name || id,
    ...(description === undefined ? {} : { description }),
    ...(neverAsks ? { neverAsks } : {}),
  }));
}

const CHOICE_FIELDS = { id: isString, name: isString, description: isString, neverAsks: (value: unknown) => value === true };
