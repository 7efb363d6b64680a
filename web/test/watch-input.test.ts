// Detecting input of the user.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchInput } from '../src/ui/watch-input.ts';

/** Counts the inputs among these events. */
function countInputs(events: Partial<PointerEvent>[]): number {
  const handlers = new Map<string, (event: Event) => void>();
  let count = 0;
  const addEventListener = (type: string, handler: (event: Event) => void) => void handlers.set(type, handler);
  watchInput({ addEventListener } as unknown as Window, () => (count += 1));
  for (const event of events) handlers.get(event.type ?? '')?.({ isTrusted: true, ...event } as Event);
  return count;
}

test('keys, clicks, wheel, touch and text are input', () => {
  const types = ['pointerdown', 'keydown', 'wheel', 'touchmove', 'click', 'input'];
  assert.equal(countInputs(types.map((type) => ({ type }))), types.length);
});

test('scrolling, and events of scripts are no input', () => {
  assert.equal(countInputs([{ type: 'scroll' }, { type: 'click', isTrusted: false }, { type: 'keydown', isTrusted: false }]), 0);
});

test('a pointer is input only while it moves', () => {
  const move = (screenX: number, screenY: number) => ({ type: 'pointermove', screenX, screenY });
  assert.equal(countInputs([move(5, 5), move(5, 5), move(5, 5)]), 0);
  assert.equal(countInputs([move(5, 5), move(6, 5), move(6, 5), move(6, 6)]), 2);
});
