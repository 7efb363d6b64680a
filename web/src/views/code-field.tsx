/** The field for a code that adds a device: typed, pasted or scanned. */

import { Suspense } from 'preact/compat';
import { useEffect, useState } from 'preact/hooks';
import { codeOfPage, readCode } from '../content/device-code.ts';
import { lazy } from './lazy.tsx';

const ScanButton = lazy(() => import('../ui/scanner.tsx').then(({ ScanButton }) => ScanButton));

/** Whether this browser may be able to scan. Pages without HTTPS have no camera. */
const mayScan = 'BarcodeDetector' in globalThis && Boolean(navigator.mediaDevices);

interface Props {
  value: string;
  help: string;
  onChange: (value: string) => void;
}

export function CodeField({ value, help, onChange }: Props) {
  const changeToScanned = (text: string) => onChange(readCode(text, location.origin));
  return (
    <div class="field">
      <label for="code">Code</label>
      <div class="code-field">
        <input
          id="code"
          class="input mono code"
          required
          placeholder="ABCD-EFGH"
          autocomplete="off"
          autocapitalize="characters"
          spellcheck={false}
          value={value}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
          aria-describedby="code-help"
        />
        {mayScan && (
          <Suspense fallback={null}>
            <ScanButton onScan={changeToScanned} />
          </Suspense>
        )}
      </div>
      <p id="code-help" class="muted small">
        {help}
      </p>
    </div>
  );
}

/** Returns the code in the fragment of the page's address, or null. */
export function useLinkCode(): string | null {
  const [code, setCode] = useState(codeOfPage);
  useEffect(() => {
    const onChange = () => setCode(codeOfPage());
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  return code;
}
