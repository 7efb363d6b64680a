/** The dialog that shows a code, as a QR code and as text, and waits until a device has used it. */

import './devices.css';
import { Copy } from 'lucide-preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { isLoopback } from '../content/device-code.ts';
import { type CodeState, createCode, type DeviceCode, fetchCodeState } from '../state/devices.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { QrCode } from '../ui/qr-code.tsx';
import { useFetch } from '../ui/use-fetch.ts';

/** The interval at which the state of the code is read again. */
const POLL_MS = 2000;

interface Props {
  onAdded: () => void;
  onClose: () => void;
}

export function AddDevice({ onAdded, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const [attempt, setAttempt] = useState(0);
  const { value, error, refetch } = useFetch(`code ${attempt}`, createCode);
  return (
    <dialog class="dialog" ref={dialog} onClose={onClose} aria-labelledby="add-device">
      <div class="add-device">
        <h2 id="add-device">Add a device</h2>
        {error !== null ? (
          <ErrorNotice text={error} onRetry={refetch} />
        ) : value === undefined ? (
          <Skeleton label="Creating a code" lines={6} />
        ) : (
          <Code {...value} onAdded={onAdded} onRenew={() => setAttempt(attempt + 1)} />
        )}
        <div class="actions">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </div>
      </div>
    </dialog>
  );
}

interface CodeProps extends DeviceCode {
  onAdded: () => void;
  onRenew: () => void;
}

function Code({ onAdded, onRenew, ...created }: CodeProps) {
  const { code, url, expiresAt } = created;
  const codeState = useCodeState(created, onAdded);
  const secondsLeft = useSecondsLeft(expiresAt);
  if (codeState !== 'unused' || secondsLeft === 0) {
    return (
      <div class={typeof codeState === 'string' ? 'notice warn' : 'notice'} role="status">
        {typeof codeState !== 'string' ? (
          <span>
            Used by{' '}
            <strong>
              <EscapedText text={codeState.name} />
            </strong>
          </span>
        ) : secondsLeft === 0 ? (
          'The code has expired.'
        ) : (
          'The code is no longer valid, because a device was revoked.'
        )}
        <button type="button" class="button" onClick={onRenew}>
          New code
        </button>
      </div>
    );
  }
  return (
    <>
      {isLoopback(url) && (
        <p class="notice warn">
          <span>
            A phone cannot open this link: its address is this computer. Start the hub with <span class="mono">--host</span>, open the
            console at the address on the network that the hub prints, and add the phone there.
          </span>
        </p>
      )}
      <p>Scan this with the camera of a phone, or enter the code on the sign-in page of the other device.</p>
      <QrCode text={url} label="QR code of the sign-in link" />
      <p class="device-code mono">{code}</p>
      <p class="muted small">
        Works once, for another{' '}
        <span class="mono">
          {Math.floor(secondsLeft / 60)}:{String(secondsLeft % 60).padStart(2, '0')}
        </span>
        . Anyone who has the code gets access: do not share it. A device that is connected already says so, and is not added again.
      </p>
      <LinkText url={url} />
    </>
  );
}

function LinkText({ url }: { url: string }) {
  const [isCopied, setCopied] = useState(false);
  // Browsers provide the clipboard only to pages in a secure context.
  const copy = async () => {
    await navigator.clipboard.writeText(url);
    setCopied(true);
  };
  return (
    <div class="row link-text">
      <span class="mono small">{url}</span>
      {navigator.clipboard && (
        <button type="button" class="button" onClick={() => void copy().catch(() => {})}>
          <Copy size={16} /> {isCopied ? 'Copied' : 'Copy link'}
        </button>
      )}
    </div>
  );
}

/** Reads the state of a code until the code is used, deleted or expired. */
function useCodeState({ code, deviceId, expiresAt }: DeviceCode, onAdded: () => void): CodeState {
  const [codeState, setCodeState] = useState<CodeState>('unused');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let isOpen = true;
    setCodeState('unused');
    const poll = async () => {
      // After an error, the next poll tries again.
      const found = await fetchCodeState({ deviceId }).catch(() => 'unused' as const);
      if (!isOpen) return;
      setCodeState(found);
      if (typeof found !== 'string') onAdded();
      else if (found === 'unused' && Date.now() < expiresAt) timer = setTimeout(poll, POLL_MS);
    };
    timer = setTimeout(poll, POLL_MS);
    return () => {
      isOpen = false;
      clearTimeout(timer);
    };
  }, [code]);
  return codeState;
}

function useSecondsLeft(expiresAt: number): number {
  const secondsLeft = () => Math.max(0, Math.ceil((expiresAt - Date.now()) / 1000));
  const [seconds, setSeconds] = useState(secondsLeft);
  useEffect(() => {
    setSeconds(secondsLeft());
    const timer = setInterval(() => setSeconds(secondsLeft()), 1000);
    return () => clearInterval(timer);
  }, [expiresAt]);
  return seconds;
}
