/** The log on standard error, in local time, because other programs read ids from standard output. */

/**
 * @param {{verbose?: boolean, write?: (line: string) => void}} [options]
 * @returns {{info: (text: string) => void, warn: (text: string) => void, debug: (text: string) => void}}
 */
export function makeLog({ verbose = false, write = (line) => process.stderr.write(line) } = {}) {
  const line = (text) => write(`${new Date().toTimeString().slice(0, 8)} ${text}\n`);
  return {
    info: line,
    warn: (text) => line(`warning: ${text}`),
    debug: verbose ? line : () => {},
  };
}
