// `useFetch`: the shown value while a fetch runs and the key changes.

import { document } from './support/dom.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { h, render } from 'preact';
import { act } from 'preact/test-utils';
import { type FetchState, useFetch } from '../src/ui/use-fetch.ts';
import { pluck } from './support/pluck.ts';

/** A view whose fetches the test answers, by key. */
function renderView() {
  const fetches: { key: string; resolve: (value: string) => void; reject: (error: Error) => void }[] = [];
  let shown: FetchState<string> | undefined;
  const View = ({ name }: { name: string }) => {
    shown = useFetch(name, () => new Promise((resolve, reject) => fetches.push({ key: name, resolve, reject })));
    return null;
  };
  const show = (name: string) => act(() => render(h(View, { name }), document.body));
  const answer = (index: number, value: string) => act(async () => fetches[index]?.resolve(value));
  const fail = (index: number, text: string) => act(async () => fetches[index]?.reject(new Error(text)));
  const refetch = () => act(() => shown?.refetch());
  const current = () => [shown?.value, shown?.error, shown?.isLoading];
  const close = () => act(() => render(null, document.body));
  return { fetches, show, answer, fail, refetch, current, close };
}

test('a response for an earlier key is ignored, even if it arrives last', async () => {
  const view = renderView();
  await view.show('a');
  await view.show('b');
  await view.show('c');
  assert.deepEqual(pluck(view.fetches, 'key'), ['a', 'b', 'c']);
  await view.answer(0, 'of a');
  assert.deepEqual(view.current(), [undefined, null, true]);
  await view.answer(2, 'of c');
  await view.fail(1, 'late');
  assert.deepEqual(view.current(), ['of c', null, false]);
  await view.show('d');
  assert.deepEqual(view.current(), [undefined, null, true], 'the value of another key is not shown');
  await view.close();
});

test('the old value stays during a new fetch, and an error replaces the value', async () => {
  const view = renderView();
  await view.show('a');
  await view.answer(0, 'first');
  await view.refetch();
  assert.deepEqual(view.current(), ['first', null, true]);
  await view.fail(1, 'Offline');
  assert.deepEqual(view.current(), [undefined, 'Offline', false]);
  await view.refetch();
  await view.answer(2, 'second');
  assert.deepEqual(view.current(), ['second', null, false]);
  await view.close();
});
