/** Why a session was not started, said at the field of the form that it is about. */

import { HubError, sentence } from '../api/errors.ts';

/** A field of the form. */
export type StartField = 'directory' | 'agent' | 'model' | 'worktree';

/** What is wrong with what was asked for. */
export interface StartProblem {
  /** Absent when it is about none of them. */
  field?: StartField | undefined;
  text: string;
}

/** The fields by their names in the interface, with what a person calls them. */
const FIELDS: Record<string, { field: StartField; words: string }> = {
  directory: { field: 'directory', words: 'The directory' },
  agent: { field: 'agent', words: 'The agent' },
  model: { field: 'model', words: 'The model' },
  worktreeName: { field: 'worktree', words: 'The name' },
};

/** A field's name as the hub and machines write it. */
const NAMED = /(?:Field )?["`](directory|agent|model|worktreeName)["`]/g;

/** What machines say of a worktree, and of a directory, without a field's name. */
const SPEAKS_OF: [words: RegExp, field: StartField][] = [
  [/\b(worktree|branch)\b/i, 'worktree'],
  [/\b(director(y|ies)|folder|repository|path)\b/i, 'directory'],
];

/**
 * A refusal of the hub or the machine, in a person's words.
 * @param isWorktree whether the form has a field for a worktree's name
 */
export function startProblem(failure: unknown, isWorktree: boolean): StartProblem {
  const said = sentence(failure);
  const [named = failure instanceof HubError ? failure.field : undefined] = [...said.matchAll(NAMED)].map(([, name]) => name);
  const spokenOf = () => SPEAKS_OF.find(([words, field]) => words.test(said) && (isWorktree || field !== 'worktree'))?.[1];
  const text = said.replace(NAMED, (_, name: string) => FIELDS[name]?.words ?? name);
  return { field: FIELDS[named ?? '']?.field ?? spokenOf(), text };
}
