/** The dialog that shows a code, as a QR code and as text, and waits until a device has used it. */

import './devices.css';
import { Copy } from 'lucide-preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Device } from '../api/types.ts';
import { createCode, fetchDevices } from '../state/devices.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { QrCode } from '../ui/qr-code.tsx';
import { useFetch } from '../ui/use-fetch.ts';

/** The interval at which the list of devices is read again. */
const POLL_MS = 2000;

interface Props {
  onAdded: () => void;
  onClose: () => void;
}

export function AddDevice({ onAdded, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const [attempt, setAttempt] = useState(0);
  const { value, error, refetch } = useFetch(`code ${attempt}`, async () => {
    // The devices are read before the code is created: a device that is added later has used the code.
    const devices = await fetchDevices();
    return { ...(await createCode()), knownIds: new Set(devices.map(({ id }) => id)) };
  });
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

interface CodeProps {
  code: string;
  url: string;
  expiresAt: number;
  knownIds: Set<string>;
  onAdded: () => void;
  onRenew: () => void;
}

function Code({ code, url, expiresAt, knownIds, onAdded, onRenew }: CodeProps) {
  const added = useAddedDevice(knownIds, expiresAt, onAdded);
  const secondsLeft = useSecondsLeft(expiresAt);
  if (added !== null) {
    return (
      <p role="status" class="notice">
        <span>
          <strong>
            <EscapedText text={added.name} />
          </strong>{' '}
          was added.
        </span>
      </p>
    );
  }
  if (secondsLeft === 0) {
    return (
      <div class="notice warn" role="status">
        The code has expired.
        <button type="button" class="button" onClick={onRenew}>
          New code
        </button>
      </div>
    );
  }
  return (
    <>
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
          <Copy size={16} aria-hidden /> {isCopied ? 'Copied' : 'Copy link'}
        </button>
      )}
    </div>
  );
}

/** Returns the device that was added while the code is valid; null until there is one. */
function useAddedDevice(knownIds: Set<string>, expiresAt: number, onAdded: () => void): Device | null {
  const [added, setAdded] = useState<Device | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let isOpen = true;
    const poll = async () => {
      // After an error, the next poll tries again.
      const devices = await fetchDevices().catch(() => []);
      const found = devices.find(({ id }) => !knownIds.has(id));
      if (!isOpen) return;
      if (found) {
        setAdded(found);
        onAdded();
      } else if (Date.now() < expiresAt + POLL_MS) timer = setTimeout(poll, POLL_MS);
    };
    timer = setTimeout(poll, POLL_MS);
    return () => {
      isOpen = false;
      clearTimeout(timer);
    };
  }, [knownIds]);
  return added;
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
