#!/usr/bin/env node
/** Connects a coding agent that speaks the Agent Client Protocol to a session gateway hub. See README.md. */

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
