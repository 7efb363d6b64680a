// `npm run doctor` on a computer that lacks what agents need.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { inProject } from '../lib/paths.mjs';

test('doctor marks what is not installed as missing, with the command that installs it', (t) => {
  const empty = tempDir(t);
  const env = { ...process.env, PATH: empty };
  const args = [inProject('scripts', 'product', 'doctor.mjs'), '--port', '65533'];
  const { stdout } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  assert.match(stdout, /^missing +hub +It is not running here\. Start it with: npm run dev -- --port 65533$/m);
  assert.match(stdout, /^missing +agents +None is on the PATH.* npm install -g @anthropic-ai\/claude-code@\d/m);
  assert.match(stdout, /^missing +git +It is not on the PATH of this computer\. .*https:\/\/git-scm\.com$/m);
});

test('doctor says that on Windows agents run only in WSL', () => {
  const onWindows = 'data:text/javascript,Object.defineProperty(process, "platform", { value: "win32" })';
  const { stdout } = spawnSync(process.execPath, ['--import', onWindows, inProject('scripts', 'product', 'doctor.mjs')], {
    encoding: 'utf8',
  });
  assert.match(stdout, /^missing +agents +On Windows, agents run only in WSL\. Install it with: wsl --install$/m);
});
