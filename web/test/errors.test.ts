// Texts for errors of the hub.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import ts from 'typescript';
import { hasText } from '../src/api/error-texts.ts';
import { errorText, responseError, splitErrorText } from '../src/api/errors.ts';

const textOf = (code: string, error?: string, status = 400) => responseError(status, { error, code }).message;

test('a call that no CLI answers is described without the name of a method', () => {
  for (const method of ['permission', 'abort', 'spawnSession'])
    for (const error of [
      `The CLI is not reachable: No handler registered for ${method}. Check that it is running.`,
      `The CLI is not reachable: The CLI disconnected before it answered ${method}. Check that it is running.`,
      `No handler registered for ${method}. The CLI registered allow: map it in the setting VOCABULARY of the hub (docs/CLIENTS.md).`,
    ])
      assert.equal(
        textOf('cli_unreachable', error, 503),
        'The agent is not connected, or not ready yet. Try again in a few seconds.',
        error,
      );
});

test('a known code has a sentence for people, whatever the hub says', () => {
  assert.equal(
    textOf('forbidden', 'This session belongs to another namespace. Use a token of that namespace.'),
    'This belongs to another account.',
  );
  assert.equal(
    textOf('session_not_found', 'No such session. It may have been deleted: read the list of sessions again.'),
    'This session does not exist. It may have been deleted.',
  );
});

test('an error names a field by the word that people use, and does not name a field that people do not know', () => {
  assert.equal(textOf('invalid_field', 'Field `accessToken` must be a string.'), 'The access token must be a string.');
  assert.equal(textOf('invalid_field', 'Field `name` must have 1 to 64 characters.'), 'The name must have 1 to 64 characters.');
  assert.equal(textOf('invalid_field', 'Field `sessionType` is unknown.'), 'The hub did not accept this. Reload the page and try again.');
  assert.equal(textOf('invalid_field', 'Field `constructor` is unknown.'), 'The hub did not accept this. Reload the page and try again.');
});

test('an unknown code shows the hub’s sentence only if people understand it', () => {
  assert.equal(textOf('new_code', 'This file is too large.'), 'This file is too large.');
  assert.equal(textOf('new_code', 'Register it with `POST /cli/machines`.'), 'The hub did not accept this. Reload the page and try again.');
  assert.equal(
    textOf('hub_unavailable', 'The private key is malformed. Set VAPID_PUBLIC_KEY and VAPID_PRIVATE_KEY instead.', 503),
    'The hub has a problem. Try again in a few seconds.',
  );
  assert.equal(textOf('new_code', undefined, 502), 'The hub has a problem. Try again in a few seconds.');
  assert.equal(responseError(502, null).message, 'The hub has a problem. Try again in a few seconds.');
  assert.equal(textOf('constructor', 'This file is too large.'), 'This file is too large.');
});

/** Codes whose sentence has a reason, a limit or a name that only the hub knows. */
const SENTENCES_OF_THE_HUB = [
  'cli_refused',
  'hub_unavailable',
  'invalid_field',
  'mode_forbidden',
  'mode_not_applied',
  'option_not_applied',
  'too_large',
  'untrusted_directory',
  'upload_failed',
];
/** Codes of requests that the console makes only in the background, or that only the operator makes. */
const NEVER_SHOWN = ['namespace_not_empty', 'subscription_not_found'];

test('each code of the hub has a sentence for people', () => {
  const source = readFileSync(new URL('../../src/http/error.rs', import.meta.url), 'utf8');
  const codes = [...source.matchAll(/StatusCode::[A-Z_]+, "([a-z_]+)"/g)].map(([, code]) => code as string);
  assert.ok(codes.length > 25, `${codes.length} codes`);
  assert.deepEqual(
    codes.filter((code) => !hasText(code) && ![...SENTENCES_OF_THE_HUB, ...NEVER_SHOWN].includes(code)),
    [],
  );
});

test('an error may pass if the hub or the network causes it, and not if the hub refuses the request', () => {
  const isTransient = (status: number, code?: string) => responseError(status, code === undefined ? '<html>' : { code }).isTransient;
  for (const status of [408, 425, 429, 500, 502, 503, 504, 520, 524, 599]) assert.ok(isTransient(status), `${status} of a proxy`);
  for (const status of [400, 401, 403, 404, 413, 501]) assert.ok(!isTransient(status), `${status} of a proxy`);
  assert.deepEqual(
    [
      isTransient(500, 'check_failed'),
      isTransient(408, 'body_stalled'),
      isTransient(503, 'hub_unavailable'),
      isTransient(409, 'storage_full'),
    ],
    [false, true, true, false],
  );
});

test('an error text has a line with the id of the request, which can be split off', () => {
  const error = responseError(502, null, '1f3c0000-0000-4000-8000-000000000000');
  const text = errorText(error);
  assert.deepEqual(splitErrorText(text), ['The hub has a problem. Try again in a few seconds.', '1f3c0000-0000-4000-8000-000000000000']);
  for (const other of [responseError(502, null), responseError(502, null, null), new Error('No file.'), null, undefined, 'a text'])
    assert.equal(splitErrorText(errorText(other)).length, 1);
});

/** Matches the names of settings, routes, fields and programs that only operators and authors of clients know. */
const NAME_OF_THE_INTERFACE = /[A-Z]{2,}_[A-Z]|\/(api|cli)\/|`|\b[a-z]+[A-Z][a-z]|\b(JWT|RPC|VAPID|namespace)\b|\bCLI (is|decides|must)\b/;

test('no text of the console names a setting, a route or a field of the interface', () => {
  const root = new URL('../src/', import.meta.url);
  const found: string[] = [];
  let count = 0;
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tsx?$/.test(name))) {
    const source = ts.createSourceFile(file, readFileSync(new URL(file, root), 'utf8'), ts.ScriptTarget.Latest, true);
    const visit = (node: ts.Node): void => {
      // A sentence or a label has a space; a class or a key of a message has none.
      const text = ts.isJsxText(node) || ts.isStringLiteralLike(node) ? node.text.trim() : '';
      if (/^[A-Z].* /s.test(text)) {
        count += 1;
        if (NAME_OF_THE_INTERFACE.test(text)) found.push(`${file}: ${text}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  assert.ok(count > 300, `only ${count} texts were found`);
  assert.deepEqual(found, []);
});
