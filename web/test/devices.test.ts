// Codes that add a device, and the names of devices.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLoopback, isShownByNewDevice, parseCode, readCode } from '../src/content/device-code.ts';
import { describeBrowser } from '../src/content/device-name.ts';

const ORIGIN = 'https://hub.example.com';

test('reads a code in any case, with and without hyphens and spaces', () => {
  for (const text of ['ABCD-EFGH', 'abcdefgh', ' abcd efgh ', 'AB-CD-EF-GH', 'abcd–efgh\n'])
    assert.equal(parseCode(text), 'ABCD-EFGH', text);
  for (const text of ['', 'ABCD-EFG', 'ABCD-EFGHJ', 'ABCD-EFG0', 'ABCD-EFGI', 'ABCD-EFGO', 'ABCD-EFGU', 'ABCD-EFGÄ'])
    assert.equal(parseCode(text), null, text);
});

test('the code of a device that asks begins with R', () => {
  assert.deepEqual(['RBCD-EFGH', 'ABCD-EFGH'].map(isShownByNewDevice), [true, false]);
});

test('reads the code of a link of this hub, and refuses other links', () => {
  assert.equal(readCode(`${ORIGIN}/pair#abcd-efgh`, ORIGIN), 'ABCD-EFGH');
  assert.equal(readCode('abcd efgh', ORIGIN), 'ABCD-EFGH');
  assert.throws(() => readCode('https://evil.example.com/pair#ABCD-EFGH', ORIGIN), {
    message: 'This is a link of another hub (evil.example.com). Open it there.',
  });
  for (const text of ['hello', `${ORIGIN}/pair`, 'WIFI:S:home;;', `${ORIGIN}/#%`])
    assert.throws(() => readCode(text, ORIGIN), { message: /8 letters and digits/ }, text);
});

test('a browser proposes its name, its system and its kind', () => {
  const chrome = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
  const safari = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0';
  const cases: [string, string, string][] = [
    [chrome, 'Chrome on Windows', 'browser'],
    [`${chrome} Edg/140.0.0.0`, 'Edge on Windows', 'browser'],
    [`Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) ${safari} Mobile/15E148 Safari/604.1`, 'Safari on iPhone', 'phone'],
    [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${safari} Safari/605.1.15`, 'Safari on Mac', 'browser'],
    ['Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36', 'Chrome on Android', 'phone'],
    ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox on Linux', 'browser'],
    ['Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) CriOS/140.0 Mobile/15E148 Safari/604.1', 'Chrome on iPad', 'browser'],
    ['curl/8', 'Browser', 'browser'],
  ];
  for (const [userAgent, name, kind] of cases) assert.deepEqual(describeBrowser(userAgent), { name, kind }, userAgent);
});

test('an address that only this computer reaches is found', () => {
  const loopback = ['http://127.0.0.1:8787/pair#A', 'http://127.1.2.3', 'http://localhost:1', 'http://[::1]:8787/'];
  const others = ['https://hub.example.com', 'http://192.168.1.2:8787', 'http://[fe80::1]/', 'https://localhost.example.com'];
  assert.deepEqual([loopback.every(isLoopback), others.some(isLoopback)], [true, false]);
});
