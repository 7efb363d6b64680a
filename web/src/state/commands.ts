/** Slash commands and skills of a session, for the composer. */

import type { Command } from '../content/completions.ts';
import { api } from '../hub.ts';

/** The commands and skills that an agent offers; none when it cannot say. */
export async function commandsOf(sessionId: string): Promise<Command[]> {
  const params = { params: { path: { id: sessionId } } };
  const [commands, skills] = await Promise.all([
    api.GET('/api/sessions/{id}/slash-commands', params).catch(() => null),
    api.GET('/api/sessions/{id}/skills', params).catch(() => null),
  ]);
  const names = listOf<string>(commands?.data, 'commands').map((name) => ({ name, description: '' }));
  return [...names, ...listOf<Command>(skills?.data, 'skills').map((skill) => ({ ...skill, description: skill.description || 'Skill' }))];
}

/** A list out of the result of a CLI, which may be anything. */
function listOf<T>(result: unknown, name: string): T[] {
  const found = typeof result === 'object' && result !== null ? (result as Record<string, unknown>)[name] : undefined;
  return Array.isArray(found) ? (found as T[]) : [];
}
