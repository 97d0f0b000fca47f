/** Says state changes to screen readers; politely, and each only once. */
export function LiveRegion({ words }: { words: string }) {
  return (
    <div className="unseen" role="status" aria-live="polite">
      {words}
    </div>
  );
}
