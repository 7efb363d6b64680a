/** The agents, permission modes and models that can be chosen: from the hub's configuration and from the metadata of sessions. */

import { computed } from '@preact/signals';
import type { AgentChoice, Choice, Machine } from '../api/types.ts';
import { isString, parseObjects } from '../api/validate.ts';
import { type AgentOption, parseChoices, parseOptions } from '../content/agent-options.ts';
import { getOwn } from './get-own.ts';
import { state } from './store.ts';

/** The fields of a session's metadata that this module reads. CLIs write the metadata, so any field may be invalid. */
type Metadata = { flavor?: unknown; modes?: unknown; models?: unknown; options?: unknown; currentModel?: unknown } | null;

/** The deployment's agents; empty until the configuration is loaded. */
export const agents = computed<AgentChoice[]>(() => state.value.config?.agents ?? []);

/** An agent that can be started. */
export type AgentOffer = Pick<AgentChoice, 'id' | 'label' | 'models'> & { flavor?: string; options?: AgentOption[] };

/** Returns the agents that the machine lists. Returns the deployment's agents if the machine lists none. */
export function agentsOn(machine: Pick<Machine, 'metadata'> | undefined): AgentOffer[] {
  const offers = listedAgents(machine)?.map(({ id, name, flavor = id, models, options }) => {
    const agent = agentOf({ flavor });
    const label = name || agent?.label || id;
    return { id, flavor, label, models: nonEmptyChoices(models) ?? agent?.models ?? [], options: parseOptions(options) };
  });
  return offers ?? agents.value;
}

/** Returns the agents that a machine lists; undefined if it lists none. */
function listedAgents(machine: Pick<Machine, 'metadata'> | undefined) {
  const list: unknown = machine?.metadata?.agents;
  if (!Array.isArray(list)) return undefined;
  return parseObjects<{ id: string; name?: string; flavor?: string; models?: unknown; options?: unknown }>(
    list,
    { id: isString, name: isString, flavor: isString },
    ['id'],
  );
}

/** The agent of a session without a flavor; undefined if the deployment does not offer that agent. */
export const defaultAgent = computed<AgentChoice | undefined>(() => agents.value.find(({ id }) => id === state.value.config?.defaultAgent));

/** Returns the agent of a session. A flavor is the `id` or the `kind` of an agent of the deployment. */
function agentOf(metadata: Metadata): AgentChoice | undefined {
  const flavor = metadata?.flavor ?? null;
  if (flavor === null) return defaultAgent.value;
  return agents.value.find(({ id }) => id === flavor) ?? agents.value.find(({ kind }) => kind === flavor);
}

/**
 * Returns the name of a session's agent for display, or undefined if it is unknown: the name in the metadata, the machine's name for the
 * agent, or the deployment's. A flavor without a name is shown with a capital letter.
 */
export function agentLabel(
  metadata: { flavor?: string | null; agentName?: string; machineId?: string } | null | undefined,
): string | undefined {
  const { flavor, agentName, machineId = '' } = metadata ?? {};
  if (agentName || !flavor) return agentName || undefined;
  // Several agents of a machine may have the same flavor.
  const matching =
    listedAgents(getOwn(state.value.machines, machineId))?.filter((agent) => agent.flavor === flavor || agent.id === flavor) ?? [];
  const [only] = matching.length === 1 ? matching : [];
  return only?.name || agentOf({ flavor })?.label || `${flavor.charAt(0).toUpperCase()}${flavor.slice(1)}`;
}

/** Returns the choices that a session's or a machine's metadata lists. Returns undefined if there are none. */
function nonEmptyChoices(choices: unknown): Choice[] | undefined {
  const parsed = parseChoices(choices);
  return parsed.length === 0 ? undefined : parsed;
}

/** Returns the options of a session's agent. */
export const optionsOf = (metadata: Metadata): AgentOption[] => parseOptions(metadata?.options);

/** The permission modes that the deployment forbids. */
const forbiddenModes = computed(() => new Set((state.value.config?.forbiddenModes ?? '').split(',')));

/** Whether the deployment allows sessions whose agent never asks. */
export const allowsNeverAsking = computed(() => !['yolo', 'bypassPermissions'].some((mode) => forbiddenModes.value.has(mode)));

/** Returns the permission modes of a session: the session's own list, or else the hub's list for the session's agent. */
export const modesOf = (metadata: Metadata): Choice[] =>
  (nonEmptyChoices(metadata?.modes) ?? agentOf(metadata)?.modes ?? []).filter(({ id }) => !forbiddenModes.value.has(id));

/** Returns the models of a session: the session's own list, or else the hub's list for the session's agent. */
export const modelsOf = (metadata: Metadata): Choice[] => nonEmptyChoices(metadata?.models) ?? agentOf(metadata)?.models ?? [];

/** Returns the model of a session: the model that the hub last reported, or else the model in the metadata. */
export function currentModel({ metadata, modelMode }: { metadata: Metadata; modelMode?: string }): string {
  return modelMode ?? (isString(metadata?.currentModel) ? metadata.currentModel : 'default');
}

/** The permission modes of all agents. */
const allModes = computed(() => agents.value.flatMap(({ modes }) => modes));

/** Returns the mode that approves file edits without asking, if the session offers that mode. */
export function acceptEditsMode(metadata: Metadata): Choice | undefined {
  const acceptEditsIds = new Set(allModes.value.filter(({ acceptsEdits }) => acceptsEdits).map(({ id }) => id));
  return modesOf(metadata).find(({ id }) => acceptEditsIds.has(id));
}

/** Returns the label of a permission mode: from the session, its agent, or any agent. Returns the mode itself if it has no label. */
export function modeLabel(mode: string, metadata: Metadata): string {
  const modes = [...parseChoices(metadata?.modes), ...(agentOf(metadata)?.modes ?? []), ...allModes.value];
  return modes.find(({ id }) => id === mode)?.label ?? mode;
}
