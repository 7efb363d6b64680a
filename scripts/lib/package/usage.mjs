// The commands and the usage text of the hub's npm package.

/** The commands: by the name of a script in scripts/, the description of the command. */
export const COMMANDS = {
  deploy: 'deploy the hub to Cloudflare, or update it',
  devices: 'list, add, rename and revoke the devices of a namespace',
  doctor: 'check this computer, and say what to do about each problem',
  namespace: 'list the namespaces of the database',
  smoke: 'check a running hub as its clients see it',
  token: 'print the access token of one namespace',
  wrangler: "run a command of Cloudflare's tool for the deployed hub, such as rollback",
};

/** The script that runs without a command. */
export const DEFAULT_COMMAND = 'start';

const commandLines = Object.entries(COMMANDS).map(([name, description]) => `  ${name.padEnd(16)} ${description}`);

export const PACKAGE_USAGE = `Usage: npx session-gateway-hub [--data DIR] [options]
       npx session-gateway-hub [--data DIR] COMMAND [options]

Without a command, runs the hub on this computer until Ctrl-C. Commands (each has --help):
${commandLines.join('\n')}

  --data DIR       folder of the local hub's data (default ~/.session-gateway-hub)
  --version        the version of this package`;
