/** Moves data that an earlier version of the console stored in the tab to the browser's database. */

import type { Database } from './database.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';

type TabMessages = Record<string, (Omit<OutgoingMessage, 'status'> & { state: OutgoingMessage['status'] })[]>;
type TabAnswerDrafts = [id: string, answer: { reason: string; chosen: [string, string[]][]; written: [string, string][] }][];

const MESSAGE_DRAFT = 'draft ';

/** Imports the unsent messages and the drafts of this tab. */
export async function importTabStorage(database: Database): Promise<void> {
  const take = (key: string) => {
    const text = sessionStorage.getItem(key);
    sessionStorage.removeItem(key);
    return text;
  };
  const messages = JSON.parse(take('outbox') ?? '{}') as TabMessages;
  const answerDrafts = JSON.parse(take('answers') ?? '[]') as TabAnswerDrafts;
  const drafts = Object.keys(sessionStorage).filter((key) => key.startsWith(MESSAGE_DRAFT));
  await Promise.all([
    ...Object.entries(messages).flatMap(([sessionId, all]) =>
      all.map(({ localId, text, attachments, createdAt, state, error = '' }) =>
        database.put('outbox', localId, { sessionId, text, attachments, createdAt, ...(state === 'failed' ? { error } : {}) }),
      ),
    ),
    ...answerDrafts.map(([id, { reason, chosen, written }]) =>
      database.put('draft', `answer ${id}`, { reason, selectedOptions: new Map(chosen), typedTexts: new Map(written) }),
    ),
    ...drafts.map((key) => database.put('draft', `message ${key.slice(MESSAGE_DRAFT.length)}`, { text: take(key) ?? '', files: [] })),
  ]).catch((error: unknown) => console.warn('Unsent messages of this tab cannot be stored.', error));
}
