#!/usr/bin/env node
/** Connects a coding agent that speaks the Agent Client Protocol to a session gateway hub. See README.md. */

const OLDEST_NODE = 20;

// Checked before other modules are imported, because they need this version.
if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
  const version = `Node ${OLDEST_NODE} or newer is needed, but this is Node ${process.versions.node}.`;
  process.stderr.write(`session-gateway-agent: ${version} Install a newer version, for example from https://nodejs.org.\n`);
  process.exit(1);
}

// npm installs agents on Windows as batch files, and the processes of an agent are ended as a process group.
if (process.platform === 'win32') {
  process.stderr.write(
    'session-gateway-agent: On Windows, agents run only in WSL. Install it with: wsl --install. Then start this command in WSL.\n',
  );
  process.exit(1);
}

// Imported dynamically, so that a missing npm package gives an error that names the command to run.
try {
  const { runProgram } = await import('session-gateway-cli-kit/program');
  const { program } = await import('./src/program.mjs');
  runProgram(program);
} catch (error) {
  if (error.code !== 'ERR_MODULE_NOT_FOUND' || !error.message.startsWith('Cannot find package')) throw error;
  process.stderr.write(`session-gateway-agent: npm packages are missing. In a clone, run: npm run setup; else install it again.\n`);
  process.exit(1);
}
