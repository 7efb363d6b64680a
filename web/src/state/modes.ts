/** The permission modes and models of each kind of agent (its flavor), and their labels. */

import type { PermissionMode } from '../api/types.ts';

const BETA_MODES: PermissionMode[] = ['default', 'read-only', 'safe-yolo', 'yolo'];

const MODES = new Map<string, PermissionMode[]>([
  ['alpha', ['default', 'acceptEdits', 'bypassPermissions', 'plan']],
  ['beta', BETA_MODES],
  ['gamma', ['default', 'plan', 'ask', 'yolo']],
  ['delta', BETA_MODES],
  ['epsilon', ['default', 'yolo']],
]);

/** The flavors that a session can be started with. */
export const FLAVORS = [...MODES.keys()];

/** The models that a session of flavor alpha can switch to. */
export const MODELS = ['default', 'model_fast', 'model_strong'] as const;

export type ModelMode = (typeof MODELS)[number];

/** Returns the permission modes of a flavor. A missing flavor means alpha. An unknown one, of a custom vocabulary, has `default`. */
export function modesOf(flavor: string | null | undefined): PermissionMode[] {
  return MODES.get(flavor ?? 'alpha') ?? ['default'];
}

/** Whether sessions of this flavor can switch models. */
export function hasModels(flavor: string | null | undefined): boolean {
  return (flavor ?? 'alpha') === 'alpha';
}

/** Returns the mode that approves file edits automatically, if the flavor has one. */
export function acceptEditsMode(flavor: string | null | undefined): PermissionMode | undefined {
  return modesOf(flavor).find((mode) => mode === 'acceptEdits');
}

const MODE_TEXTS = new Map<string, [label: string, meaning: string]>([
  ['default', ['Ask', 'Asks before each tool']],
  ['acceptEdits', ['Accept edits', 'Edits files without asking, asks before commands']],
  ['bypassPermissions', ['Bypass', 'Never asks']],
  ['plan', ['Plan', 'Plans before it acts']],
  ['ask', ['Ask always', 'Asks before each action']],
  ['read-only', ['Read only', 'Changes no files']],
  ['safe-yolo', ['Safe auto', 'Does not ask before safe actions']],
  ['yolo', ['Auto', 'Never asks']],
]);

export const modeLabel = (mode: string): string => MODE_TEXTS.get(mode)?.[0] ?? mode;

export const modeDescription = (mode: string): string => MODE_TEXTS.get(mode)?.[1] ?? '';

const MODEL_LABELS = new Map<string, string>([
  ['default', 'Default model'],
  ['model_fast', 'Fast model'],
  ['model_strong', 'Strong model'],
]);

export const modelLabel = (model: string): string => MODEL_LABELS.get(model) ?? model;
