// Keys while a text is composed.

import { document } from './support/dom.ts';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hideComposingKeys } from '../src/ui/composing-keys.ts';

test('keys that compose a text reach no listener, and keep their default action', () => {
  const { window } = globalThis;
  const field = document.createElement('textarea');
  document.body.append(field);
  hideComposingKeys(window);
  const heard: string[] = [];
  const listen = (target: EventTarget, name: string, capture: boolean) => {
    target.addEventListener('keydown', (event) => heard.push(`${name} ${(event as KeyboardEvent).key}`), { capture });
  };
  listen(window, 'window', true);
  listen(document, 'document', true);
  listen(field, 'field', false);
  const press = (key: string, init: KeyboardEventInit) => {
    const event = new window.KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...init });
    assert.equal(field.dispatchEvent(event), true);
  };
  for (const key of ['Enter', 'Tab', 'Escape', 'ArrowDown', 'j']) {
    press(key, { isComposing: true });
    press(key, { keyCode: 229 });
  }
  assert.deepEqual(heard, []);
  press('Enter', { keyCode: 13 });
  assert.deepEqual(heard, ['window Enter', 'document Enter', 'field Enter']);
});
