// `npm run token -- NAMESPACE`, and a command of the npm package: prints the access token of one namespace, derived from CLI_API_TOKEN without asking the hub.
// It is valid for that namespace only. See docs/DEPLOY.md.

import { parseCommandLine } from './lib/command-line.mjs';
import { accessToken, DEV_VARS_NAME, namespaceToken } from './lib/dev-vars.mjs';
import { main, UsageError } from './lib/errors.mjs';
import { commandLine } from './lib/invocation.mjs';

const USAGE = `Usage: ${commandLine('token', 'NAMESPACE')}

Prints the access token of a namespace (1 to 64 of A-Z a-z 0-9 . _ -), which is valid for that namespace only. Reads the
secret from the environment variable CLI_API_TOKEN, else from ${DEV_VARS_NAME}.

  --help  this text`;

await main(async () => {
  const { help, words } = parseCommandLine(process.argv.slice(2), USAGE, {}, { words: true });
  if (help) {
    console.log(USAGE);
    return 0;
  }
  const [namespace, ...rest] = words;
  if (!namespace || rest.length > 0 || !/^[A-Za-z0-9._-]{1,64}$/.test(namespace)) {
    throw new UsageError('Give one namespace: 1 to 64 of A-Z a-z 0-9 . _ -', `Example: ${commandLine('token', 'team-a')}`);
  }
  console.log(namespaceToken(process.env.CLI_API_TOKEN || accessToken(), namespace));
  if (!process.env.CLI_API_TOKEN) console.error(`From ${DEV_VARS_NAME}: a token of the local hub.`);
  return 0;
});
