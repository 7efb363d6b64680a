/** The definitions of user services. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeService } from '../src/service.mjs';

const service = (platform, ...argv) =>
  describeService({
    argv,
    env: { PATH: '/usr/bin', CLI_API_TOKEN: 'secret', HUB_URL: 'https://hub' },
    platform,
    node: '/bin/node',
    entry: '/opt/index.mjs',
    dir: '/home/ada/my code',
    home: '/home/ada',
  });

test('a systemd unit starts the same command without the token', () => {
  const unit = service('linux', '--agent', 'claude', '--dir', 'my code', '--token', 'secret', '--service', '--name=50%');
  const exec = /^ExecStart=(.*)$/m.exec(unit)[1];
  assert.equal(exec, '"/bin/node" "/opt/index.mjs" "--dir" "/home/ada/my code" "--agent" "claude" "--name=50%%"');
  assert.match(unit, /^Environment="PATH=\/usr\/bin"\nEnvironment="HUB_URL=https:\/\/hub"$/m);
  assert.match(unit, /session-gateway-agent-my-code\.service/);
  assert.doesNotMatch(unit, /secret/);
});

test('a launchd agent has the command of the agent after --', () => {
  const plist = service('darwin', '--dir=x', '--token=secret', '--service', '--', 'my-agent', '--token', 'a<b');
  const words = [...plist.slice(plist.indexOf('<array>'), plist.indexOf('</array>')).matchAll(/<string>(.*)<\/string>/g)];
  const command = ['/bin/node', '/opt/index.mjs', '--dir', '/home/ada/my code', '--', 'my-agent', '--token', 'a&lt;b'];
  assert.deepEqual(words.map(([, word]) => word), command);
  assert.doesNotMatch(plist, /secret/);
});

test('on another system the option is refused', () => {
  assert.throws(() => service('win32'), /knows systemd \(Linux\) and launchd \(macOS\), not win32/);
});
