// The commands of the npm package of the hub, and its usage text.

/** The commands: the name of a script in scripts/, and what it does. */
export const COMMANDS = {
  deploy: 'deploy the hub to Cloudflare, or update it',
  doctor: 'check this computer, and say what to do about each problem',
  namespace: 'list the namespaces of the database',
  smoke: 'check a running hub as its clients see it',
  token: 'print the access token of one namespace',
  wrangler: "run a command of Cloudflare's tool for the deployed hub, such as rollback",
};

/** The script that runs without a command. */
export const DEFAULT_COMMAND = 'start';

const lines = Object.entries(COMMANDS).map(([name, what]) => `  ${name.padEnd(16)} ${what}`);

export const PACKAGE_USAGE = `Usage: npx session-gateway-hub [--data DIR] [options]
       npx session-gateway-hub [--data DIR] COMMAND [options]

Without a command, runs the hub on this computer until Ctrl-C. Commands (each has --help):
${lines.join('\n')}

  --data DIR       folder of the local hub's data (default ~/.session-gateway-hub)
  --version        the version of this package`;
