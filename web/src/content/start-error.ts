/** Assigns the error of a failed session start to the form field that it concerns. */

import { errorText, HubError } from '../api/errors.ts';

export type StartField = 'directory' | 'agent' | 'model' | 'worktree';

export interface StartError {
  /** Undefined if the error concerns no field. */
  field?: StartField | undefined;
  text: string;
}

/** The API's fields with their form fields and names. */
const FIELDS: Record<string, { field: StartField; label: string }> = {
  directory: { field: 'directory', label: 'The directory' },
  agent: { field: 'agent', label: 'The agent' },
  model: { field: 'model', label: 'The model' },
  worktreeName: { field: 'worktree', label: 'The worktree name' },
};

/** Matches a field name in the error texts of the hub and of machines. */
const FIELD_REFERENCE = /(?:Field )?["`](directory|agent|model|worktreeName)["`]/g;

/** Words that indicate the field of a machine's error if the error does not name a field. */
const KEYWORDS: [pattern: RegExp, field: StartField][] = [
  [/\b(worktree|branch)\b/i, 'worktree'],
  [/\b(director(y|ies)|folder|repository|path)\b/i, 'directory'],
];

/**
 * Returns the form field that an error concerns, and the error text. The text has the form's names instead of the API's names.
 * @param hasWorktreeField whether the form currently shows the field for the worktree name
 */
export function describeStartError(error: unknown, hasWorktreeField: boolean): StartError {
  const message = errorText(error);
  const [fieldName = error instanceof HubError ? error.field : undefined] = [...message.matchAll(FIELD_REFERENCE)].map(([, name]) => name);
  const guessField = () => KEYWORDS.find(([pattern, field]) => pattern.test(message) && (hasWorktreeField || field !== 'worktree'))?.[1];
  const text = message.replace(FIELD_REFERENCE, (_, name: string) => FIELDS[name]?.label ?? name);
  return { field: FIELDS[fieldName ?? '']?.field ?? guessField(), text };
}
