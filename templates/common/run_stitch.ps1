# Starts, or continues, this site's part of the federation. Stop with Ctrl-C; run again to go on.
# If Windows refuses to run it: powershell -ExecutionPolicy Bypass -File run_stitch.ps1
[Console]::OutputEncoding = [System.Text.Encoding]::UTF8
$env:PYTHONIOENCODING = "utf-8"
$env:PYTHONUTF8 = "1"
Set-Location -Path $PSScriptRoot
if (-not (Get-Command uv -ErrorAction SilentlyContinue)) {
    Write-Host "uv was not found. Install it with: pip install uv"
    exit 2
}
& uv run clif-stitch run @args
$code = $LASTEXITCODE
if ($code -ne 0) {
    Write-Host "clif-stitch ended with exit code $code. The lines above say what to do."
    if ([Environment]::UserInteractive -and $Host.Name -eq "ConsoleHost") { Read-Host "Press Enter to close" }
}
exit $code
