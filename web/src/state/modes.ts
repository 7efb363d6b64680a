/** Which permission modes and models an agent kind has, and what they are called. */

import type { PermissionMode } from '../api/types.ts';

const BETA: PermissionMode[] = ['default', 'read-only', 'safe-yolo', 'yolo'];

const VALID = new Map<string, PermissionMode[]>([
  ['alpha', ['default', 'acceptEdits', 'bypassPermissions', 'plan']],
  ['beta', BETA],
  ['gamma', ['default', 'plan', 'ask', 'yolo']],
  ['delta', BETA],
  ['epsilon', ['default', 'yolo']],
]);

/** The kinds of agents that a session can be started with. */
export const AGENTS = [...VALID.keys()];

/** Models that can be switched to, for kind alpha alone. */
export const MODELS = ['default', 'model_fast', 'model_strong'] as const;

/** A model mode. */
export type ModelMode = (typeof MODELS)[number];

/** The permission modes of an agent kind. None counts as alpha; the hub knows the modes of words that it was not taught here. */
export function modesOf(flavor: string | null | undefined): PermissionMode[] {
  return VALID.get(flavor ?? 'alpha') ?? ['default'];
}

/** Whether the model of such a session can be switched. */
export function hasModels(flavor: string | null | undefined): boolean {
  return (flavor ?? 'alpha') === 'alpha';
}

/** The mode of this kind that stops asking about edits of files, when there is one. */
export function editMode(flavor: string | null | undefined): PermissionMode | undefined {
  return modesOf(flavor).find((mode) => mode === 'acceptEdits');
}

const WORDS = new Map<string, [label: string, meaning: string]>([
  ['default', ['Ask', 'Asks before every tool']],
  ['acceptEdits', ['Accept edits', 'Edits files unasked, asks before commands']],
  ['bypassPermissions', ['Bypass', 'Does everything unasked']],
  ['plan', ['Plan', 'Describes what it would do first']],
  ['ask', ['Ask always', 'Asks before every action']],
  ['read-only', ['Read only', 'Changes no file']],
  ['safe-yolo', ['Safe auto', 'Does what is safe unasked']],
  ['yolo', ['Auto', 'Does everything unasked']],
]);

/** A permission mode's name for a person. */
export const modeLabel = (mode: string): string => WORDS.get(mode)?.[0] ?? mode;

/** What a permission mode means, in a few words. */
export const modeMeaning = (mode: string): string => WORDS.get(mode)?.[1] ?? '';

const MODEL_WORDS = new Map<string, string>([
  ['default', 'Default model'],
  ['model_fast', 'Fast model'],
  ['model_strong', 'Strong model'],
]);

/** A model's name for a person. */
export const modelLabel = (model: string): string => MODEL_WORDS.get(model) ?? model;
