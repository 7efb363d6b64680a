/** Asks at the terminal whether the user trusts a folder. */

import { createInterface } from 'node:readline/promises';
import { resolveDirectory } from 'session-gateway-cli-kit/app';
import { UsageError } from 'session-gateway-cli-kit/errors';
import { TRUST_MEANING, TrustedFolders } from 'session-gateway-cli-kit/trust';
import { askYesNo } from './ask-yes-no.mjs';

/**
 * Asks once for each folder. With `--trust`, the folder is trusted without a question.
 * @param {{dir: string, home: string, trust?: boolean}} options
 * @param {{input: NodeJS.ReadableStream & {isTTY?: boolean}, output: NodeJS.WritableStream}} terminal
 * @throws {UsageError} if the folder is not trusted, and the user does not trust it or cannot be asked
 */
export async function ensureTrusted({ dir, home, trust = false }, { input, output }) {
  const directory = await resolveDirectory(dir, '--dir');
  const trusted = new TrustedFolders(home);
  if (!trust && trusted.includes(directory)) return;
  if (!trust && !input.isTTY) {
    throw new UsageError(
      `${directory} is not trusted on this machine. ${TRUST_MEANING} To trust it, add --trust, or start this program in it once at a terminal.`,
    );
  }
  if (!trust && !(await ask(directory, { input, output }))) throw new UsageError('Nothing was started, because the folder is not trusted.');
  trusted.add(directory);
}

async function ask(directory, { input, output }) {
  const terminal = createInterface({ input, output });
  // The name of a folder must not control the terminal.
  const shown = directory.replaceAll(/[\p{Cc}\p{Cf}]/gu, '?');
  try {
    return await askYesNo(terminal, `${shown}\n${TRUST_MEANING}\nTrust this folder?`);
  } finally {
    terminal.close();
  }
}
