// The stored messages of the sessions that were opened last.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Session } from '../src/api/types.ts';
import { MemoryDatabase } from '../src/state/database.ts';
import { saveConversation, showStoredConversation } from '../src/state/stored-conversations.ts';
import { patchState, state, updateConversation } from '../src/state/store.ts';
import { EMPTY_STATE } from '../src/state/types.ts';

beforeEach(() => {
  state.value = EMPTY_STATE;
  patchState({ sessions: { a: { id: 'a' } as Session } });
  updateConversation('a', (conversation) => ({ ...conversation, loadState: { status: 'ready' } }));
});

test('stores the messages of a session with the time, and shows both to the next page', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 5000 });
  const database = Promise.resolve(new MemoryDatabase());
  await saveConversation(database, 'a');
  assert.deepEqual(await (await database).get('conversation', 'a'), {
    ...{ session: { id: 'a' }, messages: [], hasOlder: false, savedAt: 5000 },
  });
  state.value = EMPTY_STATE;
  await showStoredConversation(database, 'a');
  assert.deepEqual(state.value.storedSessions, { a: 5000 });
  t.mock.timers.tick(1000);
  await saveConversation(database, 'a');
  assert.equal((await (await database).get<{ savedAt: number }>('conversation', 'a'))?.savedAt, 5000, 'not newer without the hub');
});

test('a session that was deleted is not stored again when it is closed', async () => {
  patchState({ sessionErrors: { a: { text: 'The session does not exist.', isGone: true } } });
  const database = new MemoryDatabase();
  await saveConversation(Promise.resolve(database), 'a');
  assert.deepEqual(await database.getAll('conversation'), []);
});
