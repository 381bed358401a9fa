/** Lets the event loop turn, real file operations included, until the condition holds. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 20_000
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`)
    await new Promise(setImmediate)
  }
}
