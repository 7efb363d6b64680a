/** A button that scans a QR code with the camera, for browsers with the Barcode Detection API. */

import { ScanLine } from 'lucide-preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ErrorNotice } from './loading.tsx';

const SCAN_INTERVAL_MS = 200;

/** The part of the Barcode Detection API that is used; the types of the DOM lack it. */
interface Detector {
  detect: (source: HTMLVideoElement) => Promise<{ rawValue: string }[]>;
}

const { BarcodeDetector } = globalThis as unknown as {
  BarcodeDetector: { new (options: { formats: string[] }): Detector; getSupportedFormats: () => Promise<string[]> };
};

/** `onScan` receives the text of a code. If it throws, the message is shown and the scan continues. */
export function ScanButton({ onScan }: { onScan: (text: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  const [canScan, setCanScan] = useState(false);
  useEffect(() => {
    BarcodeDetector.getSupportedFormats().then(
      (formats) => setCanScan(formats.includes('qr_code')),
      () => {},
    );
  }, []);
  if (!canScan) return null;
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>
        <ScanLine size={16} /> Scan
      </button>
      {isOpen && <Scanner onScan={onScan} onClose={() => setOpen(false)} />}
    </>
  );
}

function Scanner({ onScan, onClose }: { onScan: (text: string) => void; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const video = useRef<HTMLVideoElement>(null);
  const [error, setError] = useState<string | null>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    const closing = new AbortController();
    scan(video.current as HTMLVideoElement, closing.signal, (text) => {
      try {
        onScan(text);
        dialog.current?.close();
      } catch (failure) {
        setError((failure as Error).message);
      }
    }).catch(() => setError('The camera cannot be used. Allow it in the site settings next to the address bar, or type the code.'));
    return () => closing.abort();
  }, []);
  return (
    <dialog class="dialog" ref={dialog} onClose={onClose} aria-labelledby="scanner-title">
      <div class="sheet-content">
        <h2 id="scanner-title">Scan the QR code</h2>
        <video ref={video} class="scanner" muted playsInline aria-label="The camera’s picture" />
        <ErrorNotice text={error} />
        <button type="button" class="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
      </div>
    </dialog>
  );
}

/**
 * Shows the camera's picture, and calls `onText` for each QR code until the signal is aborted.
 * @throws {DOMException} if there is no camera, or the user does not allow it
 */
async function scan(video: HTMLVideoElement, signal: AbortSignal, onText: (text: string) => void): Promise<void> {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'environment' } });
  const stop = () => stream.getTracks().forEach((track) => track.stop());
  if (signal.aborted) return stop();
  signal.addEventListener('abort', stop);
  video.srcObject = stream;
  await video.play();
  const detector = new BarcodeDetector({ formats: ['qr_code'] });
  while (!signal.aborted) {
    const [found] = await detector.detect(video).catch(() => []);
    if (found && !signal.aborted) onText(found.rawValue);
    await new Promise((resolve) => setTimeout(resolve, SCAN_INTERVAL_MS));
  }
}
