/** Assigns the error of a failed session start to the form field that it concerns. */

import { replaceFieldNames } from '../api/error-texts.ts';
import { errorText, HubError } from '../api/errors.ts';

export type StartField = 'directory' | 'agent' | 'model' | 'worktree' | 'branch';

export interface StartError {
  /** Undefined if the error concerns no field. */
  field?: StartField | undefined;
  text: string;
}

/** The form fields of the API's fields. */
const FIELDS: Record<string, StartField> = {
  directory: 'directory',
  agent: 'agent',
  model: 'model',
  worktreeName: 'worktree',
  branch: 'branch',
};

/** Matches a field name in an error text of a machine. */
const FIELD_REFERENCE = /["`](directory|agent|model|worktreeName|branch)["`]/;

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
  const fieldName = FIELD_REFERENCE.exec(message)?.[1] ?? (error instanceof HubError ? error.field : undefined) ?? '';
  const guessField = () => KEYWORDS.find(([pattern, field]) => pattern.test(message) && (hasWorktreeField || field !== 'worktree'))?.[1];
  return { field: FIELDS[fieldName] ?? guessField(), text: replaceFieldNames(message) };
}
